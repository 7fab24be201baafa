// What the agent needs of CUPTI's binary interface, in declarations of its own.
//
// CUPTI's headers are not needed to build and its library is not linked. The layouts are those of
// CUPTI 12.0 to 13.5, in which every kind of activity record kept its fields and grew at its end
// only: a field below is read when the version that is loaded has it (see Has...). A test compares
// each offset with NVIDIA's headers where they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::cupti {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidKind = 21;
inline constexpr Result kEndOfBuffer = 12;
inline constexpr Result kNotReady = 13;
inline constexpr Result kNotInitialized = 15;
inline constexpr Result kNotSupported = 27;
inline constexpr Result kOtherSubscriber = 39;

// As cuptiGetVersion numbers them: a counter up to CUDA 12, then major * 10000 + minor * 100.
inline constexpr std::uint32_t kVersion12_0 = 18;
inline constexpr std::uint32_t kVersion12_8 = 26;
inline constexpr std::uint32_t kVersion13_0_0 = 130000;
inline constexpr std::uint32_t kVersion13_2 = 130200;
inline constexpr std::uint32_t kVersion13_3 = 130300;
inline constexpr std::uint32_t kVersionAfterKnown = 140000;

enum class Kind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDevice = 8,
  kContext = 9,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,
  kUnifiedMemory = 25,
  kCudaEvent = 36,
  kStream = 37,
  kSynchronization = 38,
  kMemory = 49,
  kMemoryPool = 50,
  kGraphTrace = 51,
};

enum class CallSite : std::uint32_t { kEnter = 0, kExit = 1 };
enum class Domain : std::uint32_t { kDriver = 1, kRuntime = 2, kResource = 3 };
inline constexpr std::uint32_t kContextBegins = 1;      // call ids of the resource domain
inline constexpr std::uint32_t kContextEnds = 2;
inline constexpr std::uint32_t kModuleLoaded = 6;
inline constexpr std::uint32_t kModuleEnds = 7;
inline constexpr std::uint32_t kGraphNodeCreated = 13;
inline constexpr std::uint32_t kGraphExecCreated = 18;
inline constexpr std::uint32_t kGraphNodeCloned = 20;
inline constexpr std::uint32_t kThreadIdsOfSystem = 1;
inline constexpr std::uint32_t kFlushForced = 1;
inline constexpr std::uint32_t kBuffersAreZeroed = 5;  // an attribute: a byte, 1 or 0
inline constexpr std::uint32_t kGraphsAreWhole = 20;   // likewise, one for all subscribers: 13.3 on
inline constexpr std::uint32_t kThreadIdType = 21;     // an attribute of a subscriber: 4 bytes

// Records are packed to 8 bytes: their address and size are multiples of 8, their fields are not
// always where a compiler would put them.
#define WL_PACKED __attribute__((packed, aligned(8)))

struct WL_PACKED Activity {
  std::uint32_t kind;
};

struct WL_PACKED KernelRecord {  // the same in 12.0 to 13.5 as far as it is declared here
  std::uint32_t kind;
  std::uint8_t cache_config;
  std::uint8_t shared_memory_config;
  std::uint16_t registers_per_thread;
  std::uint32_t partitioned_cache[2];
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t completed;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::int32_t grid[3];
  std::int32_t block[3];
  std::int32_t static_shared_bytes;
  std::int32_t dynamic_shared_bytes;
  std::uint32_t local_bytes_per_thread;
  std::uint32_t local_bytes_32;
  std::uint32_t correlation;
  std::int64_t grid_id;
  const char* name;
  void* reserved0;
  std::uint64_t queued;
  std::uint64_t submitted;
  std::uint8_t launch_type;  // 0 regular, 1 cooperative, 2 cooperative on several devices
  std::uint8_t carveout[2];
  std::uint8_t padding0;
  std::uint32_t executed_shared_bytes;
  std::uint64_t graph_node;
  std::uint32_t shared_limit_config;
  std::uint32_t graph;
  void* access_policy;
  std::uint32_t channel;
  std::uint32_t channel_type;
  std::uint32_t cluster[3];
  std::uint32_t cluster_policy;
  std::uint64_t local_bytes;
  std::uint32_t max_potential_cluster;
  std::uint32_t max_active_clusters;
  std::uint8_t is_device_launched;  // from 13.0 on
};

struct WL_PACKED CopyRecord {
  std::uint32_t kind;
  std::uint8_t copy_kind;
  std::uint8_t source_memory;
  std::uint8_t destination_memory;
  std::uint8_t flags;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t correlation;
  std::uint32_t runtime_correlation;
  std::uint32_t padding0;
  void* reserved0;
  std::uint64_t graph_node;
  std::uint32_t graph;
  std::uint32_t channel;
  std::uint32_t channel_type;
  std::uint8_t is_device_launched;
  std::uint8_t padding1[3];
  std::uint64_t copies;  // from 12.8 on
};

struct WL_PACKED PeerCopyRecord {
  std::uint32_t kind;
  std::uint8_t copy_kind;
  std::uint8_t source_memory;
  std::uint8_t destination_memory;
  std::uint8_t flags;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t source_device;
  std::uint32_t source_context;
  std::uint32_t destination_device;
  std::uint32_t destination_context;
  std::uint32_t correlation;
  void* reserved0;
  std::uint64_t graph_node;
  std::uint32_t graph;
};

struct WL_PACKED FillRecord {
  std::uint32_t kind;
  std::uint32_t value;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t correlation;
  std::uint16_t flags;
  std::uint16_t memory;
  std::uint32_t padding0;
  void* reserved0;
  std::uint64_t graph_node;
  std::uint32_t graph;
};

struct WL_PACKED GraphRecord {
  std::uint32_t kind;
  std::uint32_t correlation;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t graph;
  std::uint32_t context;
  std::uint32_t stream;
  void* reserved0;
  std::uint32_t end_device;  // from 12.3 on
  std::uint32_t end_context;
};
inline constexpr std::uint32_t kHasGraphEnd = 21;

struct WL_PACKED WaitRecord {
  std::uint32_t kind;
  std::uint32_t type;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t correlation;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t event;
  std::uint64_t event_sync;  // from 12.8 on
  std::uint32_t status;
};

struct WL_PACKED EventRecord {
  std::uint32_t kind;
  std::uint32_t correlation;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t event;
  std::uint32_t padding0;
  std::uint32_t device;  // from 12.8 on, as all below
  std::uint32_t padding1;
  void* reserved0;
  std::uint64_t device_time;
  std::uint64_t event_sync;
};
inline constexpr std::uint32_t kHasEventSync = kVersion12_8;

struct WL_PACKED StreamRecord {
  std::uint32_t kind;
  std::uint32_t context;
  std::uint32_t stream;
  std::int32_t priority;
  std::uint32_t flag;
  std::uint32_t correlation;
};

struct WL_PACKED ContextRecord {
  std::uint32_t kind;
  std::uint32_t context;
  std::uint32_t device;
  std::uint16_t api;
  std::uint16_t null_stream;
  std::uint32_t parent;  // from 12.4 on
  std::uint8_t is_green;
};
inline constexpr std::uint32_t kHasGreenContext = 22;

struct WL_PACKED DeviceRecord {
  std::uint32_t kind;
  std::uint32_t flags;
  std::uint64_t memory_kilobytes_per_s;
  std::uint64_t memory_bytes;
  std::uint32_t constant_bytes;
  std::uint32_t l2_bytes;
  std::uint32_t warp_size;
  std::uint32_t clock_khz;
  std::uint32_t copy_engines;
  std::uint32_t multiprocessors;
  std::uint32_t max_ipc;
  std::uint32_t max_warps_per_multiprocessor;
  std::uint32_t max_blocks_per_multiprocessor;
  std::uint32_t max_shared_per_multiprocessor;
  std::uint32_t max_registers_per_multiprocessor;
  std::uint32_t max_registers_per_block;
  std::uint32_t max_shared_per_block;
  std::uint32_t max_threads_per_block;
  std::uint32_t max_block[3];
  std::uint32_t max_grid[3];
  std::uint32_t compute_major;
  std::uint32_t compute_minor;
  std::uint32_t device;
  std::uint32_t has_ecc;
  std::uint8_t uuid[16];
  const char* name;
  std::uint8_t is_visible;
  std::uint8_t is_mig;
};

struct WL_PACKED OverheadRecord {
  std::uint32_t kind;
  std::uint32_t overhead;
  std::uint32_t object;
  std::uint32_t ids[3];  // a thread: process, thread. A context: device, context, stream
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t correlation;  // from 12.3 on
};
inline constexpr std::uint32_t kHasOverheadCorrelation = 21;

struct WL_PACKED MemoryRecord {
  std::uint32_t kind;
  std::uint32_t operation;
  std::uint32_t memory;
  std::uint32_t correlation;
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t time;
  std::uint64_t pc;
  std::uint32_t process;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  const char* name;
  std::uint32_t is_async;
  std::uint32_t padding0;
  std::uint32_t pool_type;
  std::uint32_t padding1;
  std::uint64_t pool_address;
  std::uint64_t pool_threshold;
  std::uint64_t pool_size;
  std::uint64_t pool_used;
};

// One event of unified memory: what a field means depends on its kind.
struct WL_PACKED UnifiedMemoryRecord {
  std::uint32_t kind;
  std::uint32_t counter;   // an UnifiedMemory
  std::uint64_t value;     // bytes moved; faults of a GPU; the instruction of a CPU's fault
  std::uint64_t start;
  std::uint64_t end;       // not of a CPU's fault
  std::uint64_t address;   // of the first page
  std::uint32_t source;    // a device, if it is none of the CPU
  std::uint32_t destination;
  std::uint32_t stream;    // not valid
  std::uint32_t process;
  std::uint32_t flags;     // why it moved; how a GPU accessed it
  std::uint32_t padding0;
};

struct WL_PACKED PoolRecord {
  std::uint32_t kind;
  std::uint32_t operation;
  std::uint32_t type;
  std::uint32_t correlation;
  std::uint32_t process;
  std::uint32_t device;
  std::uint64_t min_bytes_to_keep;
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t threshold;
  std::uint64_t time;
  std::uint64_t used;
};

#undef WL_PACKED

// What there is of unified memory, and how CUPTI is asked for it. Scope and device have no effect.
enum class UnifiedMemory : std::uint32_t {
  kToDevice = 1,
  kToHost = 2,
  kCpuFault = 3,
  kGpuFault = 4,
  kBetweenDevices = 8,
};
inline constexpr std::uint32_t kScopeOfOneDevice = 1;
struct UnifiedMemoryChoice {
  std::uint32_t scope;
  UnifiedMemory counter;
  std::uint32_t device;
  std::uint32_t is_on;
};

// What a callback on a call of the runtime's or the driver's API gets.
struct CallData {
  CallSite site;
  const char* function;
  const void* parameters;
  void* status;  // an int; at exit only
  const char* symbol;
  void* context;
  std::uint32_t context_id;
  std::uint64_t* shared;  // one word between enter and exit
  std::uint32_t correlation;
};

// The parameters of calls, as far as they are read: what their first fields are, whatever follows.
struct StreamParameters {  // waits for a stream, captures of one
  void* stream;
};
struct StreamEventParameters {  // cudaStreamWaitEvent
  void* stream;
  void* event;
};
struct EventStreamParameters {  // cudaEventRecord, with flags or without
  void* event;
  void* stream;
};
struct EventParameters {
  void* event;
};
struct ContextParameters {  // cuCtxSynchronize_v2
  void* context;
};
struct CopyParameters {  // cudaMemcpy, cuMemcpyHtoD_v2, cudaMemset, cuMemsetD8_v2 and the like
  std::uint64_t target;
  std::uint64_t source;  // or the value to fill with
  std::size_t bytes;     // or elements
};
struct CopyKindParameters {  // cudaMemcpy, cudaMemcpyAsync
  std::uint64_t target;
  std::uint64_t source;
  std::size_t bytes;
  std::uint32_t kind;
};
struct PeerCopyParameters {
  std::uint64_t target;
  std::uint64_t target_device;  // or context
  std::uint64_t source;
  std::uint64_t source_device;
  std::size_t bytes;
};
inline constexpr std::uint32_t kHostToHost = 0;
inline constexpr std::uintptr_t kLegacyStream = 1;     // handles that stand for a stream
inline constexpr std::uintptr_t kPerThreadStream = 2;

// What a callback of the resource domain gets, and what its descriptor is for graphs and for modules.
struct ResourceData {
  void* context;
  void* handle;
  void* descriptor;
};
struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
  std::uint32_t node_type;
  void* dependency;
  void* graph_exec;
};

struct SubscriberParams {
  std::size_t bytes;
  const char* name;
  char* other_name;
  std::size_t other_name_bytes;
  std::uint8_t allow_others;  // from 13.2 on
  std::uint8_t padding[7];
};
inline constexpr std::size_t kSubscriberParamsBytes13_0 = offsetof(SubscriberParams, allow_others);

struct ModuleData {
  std::uint32_t module;
  std::size_t bytes;
  const char* image;  // of the cubin, during the callback
};

// Returns the parameters of a call, with the size that CUPTI expects: that of the fields known here.
template <class Parameters, class Last>
Parameters sized(Last Parameters::*last) noexcept {
  Parameters parameters{};
  const auto* begin = reinterpret_cast<const char*>(&parameters);
  const auto* end = reinterpret_cast<const char*>(&(parameters.*last)) + sizeof(Last);
  parameters.bytes = static_cast<std::size_t>(end - begin);
  return parameters;
}

using Subscriber = void*;
using Callback = void (*)(void* data, std::uint32_t domain, std::uint32_t id, const void* what);
using RequestBuffer = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);
using BufferDone = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                            std::size_t bytes, std::size_t valid_bytes);
using Timestamp = std::uint64_t (*)();

// The functions used. The first group is needed; those of the second are null where they are not.
struct Functions {
  Result (*get_version)(std::uint32_t*);
  Result (*subscribe)(Subscriber*, Callback, void*);
  Result (*unsubscribe)(Subscriber);
  Result (*enable_callback)(std::uint32_t enable, Subscriber, std::uint32_t domain,
                            std::uint32_t id);
  Result (*get_callback_name)(std::uint32_t domain, std::uint32_t id, const char**);
  Result (*get_result_string)(Result, const char**);
  Result (*register_callbacks)(RequestBuffer, BufferDone);
  Result (*enable)(Kind);
  Result (*disable)(Kind);
  Result (*flush_all)(std::uint32_t flags);
  Result (*next_record)(std::uint8_t* buffer, std::size_t valid_bytes, Activity**);
  Result (*dropped_records)(void* context, std::uint32_t stream, std::size_t*);
  Result (*get_timestamp)(std::uint64_t*);

  Result (*subscribe_v2)(Subscriber*, Callback, void*, SubscriberParams*);
  Result (*register_timestamp)(Timestamp);
  Result (*enable_and_dump)(Kind);
  Result (*set_thread_id_type)(std::uint32_t);
  Result (*set_attribute)(std::uint32_t, std::size_t* bytes, void* value);
  Result (*enable_all_sync_records)(std::uint8_t);
  Result (*graph_node_id)(void* node, std::uint64_t*);
  Result (*graph_id)(void* graph, std::uint32_t*);
  Result (*stream_id)(void* context, void* stream, std::uint8_t per_thread, std::uint32_t*);
  Result (*context_id)(void* context, std::uint32_t*);
  Result (*choose_unified_memory)(UnifiedMemoryChoice*, std::uint32_t count);
  Result (*finalize)();
};

// What takes a subscriber, from 13.3 on: to be used, all of it, where several are allowed.
using RequestBufferV2 = void (*)(std::uint8_t** buffer, std::size_t* bytes,
                                 std::size_t* max_records, const void* info);
using BufferDoneV2 = void (*)(std::uint8_t* buffer, std::size_t bytes, std::size_t valid_bytes,
                              const void* info);
struct SubscriberFunctions {
  Result (*register_callbacks)(Subscriber, RequestBufferV2, BufferDoneV2);
  Result (*enable)(Subscriber, Kind, const void* config);
  Result (*disable)(Subscriber, Kind, const void* config);
  Result (*enable_and_dump)(Subscriber, Kind, const void* config);
  Result (*next_record)(Subscriber, std::uint8_t* buffer, std::size_t valid_bytes, Activity**);
  Result (*dropped_records)(Subscriber, void* context, std::uint32_t stream, std::size_t*);
  Result (*set_attribute)(Subscriber, std::uint32_t, std::size_t* bytes, void* value);
  Result (*get_attribute)(Subscriber, std::uint32_t, std::size_t* bytes, void* value);
  Result (*get_timestamp)(Subscriber, std::uint64_t*);
};

}  // namespace warpline::cupti
