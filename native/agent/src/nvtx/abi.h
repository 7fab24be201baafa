// What NVTX, version 3, and a tool agree on: numbers and layouts, in our own words.
//
// A program brings NVTX as headers: each library that uses them has an instance of its own, with
// a table of function pointers. At its first call an instance loads the library that
// NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2, which fills the table. Parts
// that came later ("extensions") have tables of their own, filled by
// InitializeInjectionNvtxExtension. tests/agent checks every number against NVIDIA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::agent::nvtx {

inline constexpr std::uint32_t kVersion = 3;

// Handles are ours: NVTX and programs only carry them.
struct Domain;
struct RegisteredText;

inline constexpr int kNotTracked = -2;   // what push and pop return where nobody keeps count
inline constexpr int kNothingOpen = -1;  // what pop returns without a push

enum MessageType : std::int32_t {
  kMessageNone = 0,
  kMessageText = 1,
  kMessageWide = 2,
  kMessageRegistered = 3,
};

inline constexpr std::int32_t kColorArgb = 1;

enum ValueType : std::int32_t {
  kValueNone = 0,
  kValueUint64 = 1,
  kValueInt64 = 2,
  kValueDouble = 3,
  kValueUint32 = 4,
  kValueInt32 = 5,
  kValueFloat = 6,
  kValuePayloads = static_cast<std::int32_t>(0xdfbd0009),  // an array of Payload
};

union MessageValue {
  const char* text;
  const wchar_t* wide;
  const RegisteredText* registered;
};

union ValueBits {
  std::uint64_t bits;
  std::uint32_t low_bits;
};

// One blob that a program attaches to an event.
struct Payload {
  std::uint64_t schema_id;
  std::size_t bytes;
  const void* data;
};

struct EventAttributes {
  std::uint16_t version;
  std::uint16_t bytes;  // of this struct, as the program knows it
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t value_type;
  std::int32_t payload_count;  // with kValuePayloads
  ValueBits value;             // with kValuePayloads: the address of the first Payload
  std::int32_t message_type;
  MessageValue message;
};

struct ResourceAttributes {
  std::uint16_t version;
  std::uint16_t bytes;
  std::int32_t type;
  std::uint64_t identifier;
  std::int32_t message_type;
  MessageValue message;
};

constexpr std::uint32_t resource_type(std::uint32_t group, std::uint32_t index) {
  return group << 16 | index;
}
inline constexpr std::uint32_t kResourceNativeThread = resource_type(1, 3);
inline constexpr std::uint32_t kGroupCudaDriver = 4;
inline constexpr std::uint32_t kGroupCudaRuntime = 5;

// --- Tables of functions -------------------------------------------------------------------------

using Function = void (*)();
using FunctionTable = Function**;  // places of the function pointers of an instance

enum ExportTable : std::uint32_t { kExportCallbacks = 1, kExportVersion = 3 };
using GetExportTable = const void* (*)(std::uint32_t table);

struct CallbackExport {
  std::size_t bytes;
  int (*get_table)(std::int32_t module, FunctionTable* table, unsigned int* size);
};

struct VersionExport {
  std::size_t bytes;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_tool_version)(std::uint32_t version);
};

enum Module : std::int32_t {
  kModuleCore = 1,
  kModuleCuda = 2,
  kModuleCudaRt = 4,
  kModuleCore2 = 5,
};

enum CoreFunction : unsigned int {
  kMarkEx = 1,
  kMarkA,
  kMarkW,
  kRangeStartEx,
  kRangeStartA,
  kRangeStartW,
  kRangeEnd,
  kRangePushEx,
  kRangePushA,
  kRangePushW,
  kRangePop,
  kNameCategoryA,
  kNameCategoryW,
  kNameOsThreadA,
  kNameOsThreadW,
};

enum Core2Function : unsigned int {
  kDomainMarkEx = 1,
  kDomainRangeStartEx,
  kDomainRangeEnd,
  kDomainRangePushEx,
  kDomainRangePop,
  kDomainResourceCreate,
  kDomainResourceDestroy,
  kDomainNameCategoryA,
  kDomainNameCategoryW,
  kDomainRegisterStringA,
  kDomainRegisterStringW,
  kDomainCreateA,
  kDomainCreateW,
  kDomainDestroy,
  kInitialize,
};

enum CudaFunction : unsigned int {
  kNameCuDeviceA = 1,
  kNameCuDeviceW,
  kNameCuContextA,
  kNameCuContextW,
  kNameCuStreamA,
  kNameCuStreamW,
  kNameCuEventA,
  kNameCuEventW,
};

enum CudaRtFunction : unsigned int {
  kNameCudaDeviceA = 1,
  kNameCudaDeviceW,
  kNameCudaStreamA,
  kNameCudaStreamW,
  kNameCudaEventA,
  kNameCudaEventW,
};

// --- What an instance keeps ----------------------------------------------------------------------

// How far an instance has come: it looks for a tool at its first call, and never again.
enum InstanceState : std::uint32_t { kFresh = 0, kStarted = 1, kComplete = 2 };

// The modules' numbers of functions, in the order of their tables. Modules with no function of ours are 3
// (OpenCL) and 6 (synchronization).
inline constexpr unsigned kFunctionCounts[] = {15, 8, 14, 6, 15, 6};
inline constexpr unsigned kModules = 6;  // numbered from 1
inline constexpr unsigned kFunctions = 64;
inline constexpr unsigned kTablePlaces = kFunctions + 2 * kModules;  // a null at both ends of each table

// Version 2 is a library, in which one of these functions is missing. It has an array of its tables; all its
// function pointers follow each other downwards, in an order of modules that is not that of their numbers.
inline constexpr unsigned kLibraryCounts[] = {15, 8, 14, 6, 14, 6};
inline constexpr unsigned kLibraryOrder[] = {0, 4, 5, 2, 1, 3};

// The data of an instance, alike since the first release of NVTX 3: a function pointer for each function of the
// API, and tables of their places.
struct Instance {
  std::uint32_t state;
  std::uint32_t padding;
  CallbackExport callbacks;
  VersionExport version;
  Function functions[kFunctions];
  Function* tables[kTablePlaces];
};

// --- Extensions ----------------------------------------------------------------------------------

struct ExtensionSegment {
  std::size_t id;
  std::size_t slots;
  std::intptr_t* functions;
};

struct ExtensionModule {
  std::uint16_t nvtx_version;
  std::uint16_t bytes;
  std::uint16_t module;
  std::uint16_t compat_id;
  std::size_t segments;
  ExtensionSegment* segment;
  std::intptr_t (*get_export)(std::uint32_t function);
  const void* info;
};

enum ExtensionId : std::uint16_t { kExtensionPayload = 2, kExtensionCounters = 4 };

enum PayloadFunction : std::size_t {
  kSchemaRegister = 0,
  kEnumRegister = 1,
  kMarkPayload = 2,
  kRangePushPayload = 3,
  kRangePopPayload = 4,
  kRangeStartPayload = 5,
  kRangeEndPayload = 6,
  kDomainIsEnabled = 7,
  kTimestampGet = 8,
  kTimeDomainRegister = 9,
  kTimerSource = 10,
  kTimerSourceWithData = 11,
  kScopeRegister = 12,
  kTimeSyncPoint = 13,
  kTimeSyncPointTable = 14,
  kTimestampConversionFactor = 15,
  kEventSubmit = 16,
  kEventBatchSubmit = 17,
};

enum CounterFunction : std::size_t {
  kCounterRegister = 0,
  kCounterSampleInt64 = 1,
  kCounterSampleFloat64 = 2,
  kCounterSample = 3,
  kCounterSampleNoValue = 4,
  kCounterBatchSubmit = 5,
};

// Bits of `fields` in the two structs below: which of their members the program has set.
enum SchemaField : std::uint64_t {
  kSchemaName = 1u << 1,
  kSchemaKind = 1u << 2,
  kSchemaFlags = 1u << 3,
  kSchemaEntries = 1u << 4,
  kSchemaEntryCount = 1u << 5,
  kSchemaStaticBytes = 1u << 6,
  kSchemaPackAlign = 1u << 7,
  kSchemaId = 1u << 8,
};

enum EnumField : std::uint64_t {
  kEnumName = 1u << 1,
  kEnumEntries = 1u << 2,
  kEnumEntryCount = 1u << 3,
  kEnumBytes = 1u << 4,
  kEnumId = 1u << 5,
};

struct SchemaEntry {
  std::uint64_t flags;
  std::uint64_t type;
  const char* name;
  const char* description;
  std::uint64_t detail;
  std::uint64_t offset;
  const void* semantics;
  const void* reserved;
};

struct SchemaAttributes {
  std::uint64_t fields;
  const char* name;
  std::uint64_t kind;
  std::uint64_t flags;
  const SchemaEntry* entries;
  std::size_t entry_count;
  std::size_t static_bytes;
  std::size_t pack_align;
  std::uint64_t id;  // the older layout ends here; what follows is not read
};

struct EnumEntry {
  const char* name;
  std::uint64_t value;
  std::int8_t is_flag;
};

struct EnumAttributes {
  std::uint64_t fields;
  const char* name;
  const EnumEntry* entries;
  std::size_t entry_count;
  std::size_t bytes;
  std::uint64_t id;  // the older layout ends here
};

struct ScopeAttributes {
  std::size_t bytes;
  const char* path;
  std::uint64_t parent;
  std::uint64_t id;
};

struct TimeDomainAttributes {
  std::uint64_t scope;
  std::uint64_t timestamp_type;
  std::uint64_t id;
  std::uint64_t flags;
  std::int64_t resolution;
  std::uint64_t start;
};

struct CounterAttributes {
  std::size_t bytes;
  std::uint64_t schema_id;
  const char* name;
  const char* description;
  std::uint64_t scope;
  const void* semantics;
  std::uint64_t id;
};

}  // namespace warpline::agent::nvtx
