// Compares our declarations of NVTX with NVIDIA's. It is compiled, never run.
#include "nvtx/abi.h"
#include "warpline_payload.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <type_traits>

namespace ours = warpline::agent::nvtx;
namespace raw = warpline::raw;

#define SAME(our, their) static_assert(static_cast<long long>(our) == static_cast<long long>(their))
#define SAME_SIZE(our, their) SAME(sizeof(ours::our), sizeof(their))
#define SAME_PLACE(our, member, their, theirs)                    \
  SAME(offsetof(ours::our, member), offsetof(their, theirs));     \
  SAME(sizeof(ours::our::member), sizeof(their::theirs))
// Where ours ends earlier on purpose.
#define NOT_LARGER(our, their) static_assert(sizeof(ours::our) <= sizeof(their))

SAME(ours::kVersion, NVTX_VERSION);
SAME(ours::kNotTracked, NVTX_NO_PUSH_POP_TRACKING);

SAME_SIZE(EventAttributes, nvtxEventAttributes_t);
SAME_PLACE(EventAttributes, version, nvtxEventAttributes_t, version);
SAME_PLACE(EventAttributes, bytes, nvtxEventAttributes_t, size);
SAME_PLACE(EventAttributes, category, nvtxEventAttributes_t, category);
SAME_PLACE(EventAttributes, color_type, nvtxEventAttributes_t, colorType);
SAME_PLACE(EventAttributes, color, nvtxEventAttributes_t, color);
SAME_PLACE(EventAttributes, value_type, nvtxEventAttributes_t, payloadType);
SAME_PLACE(EventAttributes, payload_count, nvtxEventAttributes_t, reserved0);
SAME_PLACE(EventAttributes, value, nvtxEventAttributes_t, payload);
SAME_PLACE(EventAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME_PLACE(EventAttributes, message, nvtxEventAttributes_t, message);

SAME_SIZE(ResourceAttributes, nvtxResourceAttributes_t);
SAME_PLACE(ResourceAttributes, version, nvtxResourceAttributes_t, version);
SAME_PLACE(ResourceAttributes, bytes, nvtxResourceAttributes_t, size);
SAME_PLACE(ResourceAttributes, type, nvtxResourceAttributes_t, identifierType);
SAME_PLACE(ResourceAttributes, identifier, nvtxResourceAttributes_t, identifier);
SAME_PLACE(ResourceAttributes, message_type, nvtxResourceAttributes_t, messageType);
SAME_PLACE(ResourceAttributes, message, nvtxResourceAttributes_t, message);
SAME(ours::kResourceNativeThread, NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE);

SAME(ours::kMessageNone, NVTX_MESSAGE_UNKNOWN);
SAME(ours::kMessageText, NVTX_MESSAGE_TYPE_ASCII);
SAME(ours::kMessageWide, NVTX_MESSAGE_TYPE_UNICODE);
SAME(ours::kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(ours::kColorArgb, NVTX_COLOR_ARGB);
SAME(ours::kValueNone, NVTX_PAYLOAD_UNKNOWN);
SAME(ours::kValueUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(ours::kValueInt64, NVTX_PAYLOAD_TYPE_INT64);
SAME(ours::kValueDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(ours::kValueUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(ours::kValueInt32, NVTX_PAYLOAD_TYPE_INT32);
SAME(ours::kValueFloat, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(ours::kValuePayloads, NVTX_PAYLOAD_TYPE_EXT);

// What an instance keeps, which nothing but its address tells.
#define SAME_BEGIN(member, theirs) SAME(offsetof(ours::Instance, member), offsetof(nvtxGlobals_t, theirs))
#define SAME_COUNT(module, table) \
  SAME(ours::kFunctionCounts[module - 1] + 2, sizeof(nvtxGlobals_t::table) / sizeof(void*))
SAME_SIZE(Instance, nvtxGlobals_t);
SAME_BEGIN(state, initState);
SAME_BEGIN(callbacks, etblCallbacks);
SAME_BEGIN(version, etblVersionInfo);
SAME_BEGIN(functions, nvtxMarkEx_impl_fnptr);
SAME_BEGIN(tables, functionTable_CORE);
SAME_COUNT(NVTX_CB_MODULE_CORE, functionTable_CORE);
SAME_COUNT(NVTX_CB_MODULE_CUDA, functionTable_CUDA);
SAME_COUNT(NVTX_CB_MODULE_OPENCL, functionTable_OPENCL);
SAME_COUNT(NVTX_CB_MODULE_CUDART, functionTable_CUDART);
SAME_COUNT(NVTX_CB_MODULE_CORE2, functionTable_CORE2);
SAME_COUNT(NVTX_CB_MODULE_SYNC, functionTable_SYNC);
SAME(ours::kModules, NVTX_CB_MODULE_SIZE - 1);
SAME(ours::kFresh, NVTX_INIT_STATE_FRESH);
SAME(ours::kStarted, NVTX_INIT_STATE_STARTED);
SAME(ours::kComplete, NVTX_INIT_STATE_COMPLETE);

SAME_SIZE(CallbackExport, NvtxExportTableCallbacks);
SAME_PLACE(CallbackExport, get_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME_SIZE(VersionExport, NvtxExportTableVersionInfo);
SAME_PLACE(VersionExport, version, NvtxExportTableVersionInfo, version);
SAME_PLACE(VersionExport, set_tool_version, NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
SAME(ours::kExportCallbacks, NVTX_ETID_CALLBACKS);
SAME(ours::kExportVersion, NVTX_ETID_VERSIONINFO);
SAME(ours::kModuleCore, NVTX_CB_MODULE_CORE);
SAME(ours::kModuleCuda, NVTX_CB_MODULE_CUDA);
SAME(ours::kModuleCudaRt, NVTX_CB_MODULE_CUDART);
SAME(ours::kModuleCore2, NVTX_CB_MODULE_CORE2);

#define SAME_CORE(name) SAME(ours::k##name, NVTX_CBID_CORE_##name)
SAME_CORE(MarkEx);
SAME_CORE(MarkA);
SAME_CORE(MarkW);
SAME_CORE(RangeStartEx);
SAME_CORE(RangeStartA);
SAME_CORE(RangeStartW);
SAME_CORE(RangeEnd);
SAME_CORE(RangePushEx);
SAME_CORE(RangePushA);
SAME_CORE(RangePushW);
SAME_CORE(RangePop);
SAME_CORE(NameCategoryA);
SAME_CORE(NameCategoryW);
SAME_CORE(NameOsThreadA);
SAME_CORE(NameOsThreadW);
SAME(ours::kNameOsThreadW + 1, NVTX_CBID_CORE_SIZE);

#define SAME_CORE2(name) SAME(ours::k##name, NVTX_CBID_CORE2_##name)
SAME_CORE2(DomainMarkEx);
SAME_CORE2(DomainRangeStartEx);
SAME_CORE2(DomainRangeEnd);
SAME_CORE2(DomainRangePushEx);
SAME_CORE2(DomainRangePop);
SAME_CORE2(DomainResourceCreate);
SAME_CORE2(DomainResourceDestroy);
SAME_CORE2(DomainNameCategoryA);
SAME_CORE2(DomainNameCategoryW);
SAME_CORE2(DomainRegisterStringA);
SAME_CORE2(DomainRegisterStringW);
SAME_CORE2(DomainCreateA);
SAME_CORE2(DomainCreateW);
SAME_CORE2(DomainDestroy);
SAME_CORE2(Initialize);
SAME(ours::kInitialize + 1, NVTX_CBID_CORE2_SIZE);

SAME(ours::kNameCuDeviceA, NVTX_CBID_CUDA_NameCuDeviceA);
SAME(ours::kNameCuDeviceW, NVTX_CBID_CUDA_NameCuDeviceW);
SAME(ours::kNameCuContextA, NVTX_CBID_CUDA_NameCuContextA);
SAME(ours::kNameCuContextW, NVTX_CBID_CUDA_NameCuContextW);
SAME(ours::kNameCuStreamA, NVTX_CBID_CUDA_NameCuStreamA);
SAME(ours::kNameCuStreamW, NVTX_CBID_CUDA_NameCuStreamW);
SAME(ours::kNameCuEventA, NVTX_CBID_CUDA_NameCuEventA);
SAME(ours::kNameCuEventW, NVTX_CBID_CUDA_NameCuEventW);
SAME(ours::kNameCudaDeviceA, NVTX_CBID_CUDART_NameCudaDeviceA);
SAME(ours::kNameCudaDeviceW, NVTX_CBID_CUDART_NameCudaDeviceW);
SAME(ours::kNameCudaStreamA, NVTX_CBID_CUDART_NameCudaStreamA);
SAME(ours::kNameCudaStreamW, NVTX_CBID_CUDART_NameCudaStreamW);
SAME(ours::kNameCudaEventA, NVTX_CBID_CUDART_NameCudaEventA);
SAME(ours::kNameCudaEventW, NVTX_CBID_CUDART_NameCudaEventW);

SAME_SIZE(ExtensionSegment, nvtxExtModuleSegment_t);
SAME_PLACE(ExtensionSegment, slots, nvtxExtModuleSegment_t, slotCount);
SAME_PLACE(ExtensionSegment, functions, nvtxExtModuleSegment_t, functionSlots);
SAME_SIZE(ExtensionModule, nvtxExtModuleInfo_t);
SAME_PLACE(ExtensionModule, nvtx_version, nvtxExtModuleInfo_t, nvtxVer);
SAME_PLACE(ExtensionModule, bytes, nvtxExtModuleInfo_t, structSize);
SAME_PLACE(ExtensionModule, module, nvtxExtModuleInfo_t, moduleId);
SAME_PLACE(ExtensionModule, compat_id, nvtxExtModuleInfo_t, compatId);
SAME_PLACE(ExtensionModule, segments, nvtxExtModuleInfo_t, segmentsCount);
SAME_PLACE(ExtensionModule, segment, nvtxExtModuleInfo_t, segments);
SAME_PLACE(ExtensionModule, info, nvtxExtModuleInfo_t, extInfo);
SAME(ours::kExtensionPayload, NVTX_EXT_PAYLOAD_MODULEID);
SAME(ours::kExtensionCounters, NVTX_EXT_COUNTERS_MODULEID);
SAME(raw::kNewestCompatId, NVTX_EXT_PAYLOAD_COMPATID);

SAME(ours::kSchemaRegister, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
SAME(ours::kEnumRegister, NVTX3EXT_CBID_nvtxPayloadEnumRegister);
SAME(ours::kMarkPayload, NVTX3EXT_CBID_nvtxMarkPayload);
SAME(ours::kRangePushPayload, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME(ours::kRangePopPayload, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME(ours::kRangeStartPayload, NVTX3EXT_CBID_nvtxRangeStartPayload);
SAME(ours::kRangeEndPayload, NVTX3EXT_CBID_nvtxRangeEndPayload);
SAME(ours::kDomainIsEnabled, NVTX3EXT_CBID_nvtxDomainIsEnabled);
SAME(ours::kScopeRegister, NVTX3EXT_CBID_nvtxScopeRegister);
SAME(ours::kTimestampGet, NVTX3EXT_CBID_nvtxTimestampGet);
SAME(ours::kTimeDomainRegister, NVTX3EXT_CBID_nvtxTimeDomainRegister);
SAME(ours::kEventSubmit, NVTX3EXT_CBID_nvtxEventSubmit);
SAME(ours::kEventBatchSubmit, NVTX3EXT_CBID_nvtxEventBatchSubmit);
SAME(ours::kCounterRegister, NVTX3EXT_CBID_nvtxCounterRegister);

SAME_SIZE(Payload, nvtxPayloadData_t);
SAME_PLACE(Payload, schema_id, nvtxPayloadData_t, schemaId);
SAME_PLACE(Payload, bytes, nvtxPayloadData_t, size);
SAME_PLACE(Payload, data, nvtxPayloadData_t, payload);

SAME_SIZE(SchemaEntry, nvtxPayloadSchemaEntry_t);
SAME_PLACE(SchemaEntry, flags, nvtxPayloadSchemaEntry_t, flags);
SAME_PLACE(SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
SAME_PLACE(SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
SAME_PLACE(SchemaEntry, description, nvtxPayloadSchemaEntry_t, description);
SAME_PLACE(SchemaEntry, detail, nvtxPayloadSchemaEntry_t, arrayOrUnionDetail);
SAME_PLACE(SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);

NOT_LARGER(SchemaAttributes, nvtxPayloadSchemaAttr_t);
SAME_PLACE(SchemaAttributes, fields, nvtxPayloadSchemaAttr_t, fieldMask);
SAME_PLACE(SchemaAttributes, name, nvtxPayloadSchemaAttr_t, name);
SAME_PLACE(SchemaAttributes, kind, nvtxPayloadSchemaAttr_t, type);
SAME_PLACE(SchemaAttributes, flags, nvtxPayloadSchemaAttr_t, flags);
SAME_PLACE(SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME_PLACE(SchemaAttributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
SAME_PLACE(SchemaAttributes, static_bytes, nvtxPayloadSchemaAttr_t, payloadStaticSize);
SAME_PLACE(SchemaAttributes, pack_align, nvtxPayloadSchemaAttr_t, packAlign);
SAME_PLACE(SchemaAttributes, id, nvtxPayloadSchemaAttr_t, schemaId);
SAME(ours::kSchemaName, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME);
SAME(ours::kSchemaKind, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE);
SAME(ours::kSchemaFlags, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_FLAGS);
SAME(ours::kSchemaEntries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
SAME(ours::kSchemaEntryCount, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
SAME(ours::kSchemaStaticBytes, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE);
SAME(ours::kSchemaPackAlign, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT);
SAME(ours::kSchemaId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);

SAME_SIZE(EnumEntry, nvtxPayloadEnum_t);
SAME_PLACE(EnumEntry, name, nvtxPayloadEnum_t, name);
SAME_PLACE(EnumEntry, value, nvtxPayloadEnum_t, value);
SAME_PLACE(EnumEntry, is_flag, nvtxPayloadEnum_t, isFlag);
NOT_LARGER(EnumAttributes, nvtxPayloadEnumAttr_t);
SAME_PLACE(EnumAttributes, fields, nvtxPayloadEnumAttr_t, fieldMask);
SAME_PLACE(EnumAttributes, name, nvtxPayloadEnumAttr_t, name);
SAME_PLACE(EnumAttributes, entries, nvtxPayloadEnumAttr_t, entries);
SAME_PLACE(EnumAttributes, entry_count, nvtxPayloadEnumAttr_t, numEntries);
SAME_PLACE(EnumAttributes, bytes, nvtxPayloadEnumAttr_t, sizeOfEnum);
SAME_PLACE(EnumAttributes, id, nvtxPayloadEnumAttr_t, schemaId);
SAME(ours::kEnumName, NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME);
SAME(ours::kEnumEntries, NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES);
SAME(ours::kEnumEntryCount, NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES);
SAME(ours::kEnumBytes, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE);
SAME(ours::kEnumId, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID);

SAME_SIZE(ScopeAttributes, nvtxScopeAttr_t);
SAME_PLACE(ScopeAttributes, bytes, nvtxScopeAttr_t, structSize);
SAME_PLACE(ScopeAttributes, id, nvtxScopeAttr_t, scopeId);
SAME_SIZE(TimeDomainAttributes, nvtxTimeDomainAttr_t);
SAME_PLACE(TimeDomainAttributes, id, nvtxTimeDomainAttr_t, timeDomainId);
SAME_SIZE(CounterAttributes, nvtxCounterAttr_t);
SAME_PLACE(CounterAttributes, bytes, nvtxCounterAttr_t, structSize);
SAME_PLACE(CounterAttributes, id, nvtxCounterAttr_t, counterId);

SAME(raw::kBlobReferenced, NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED);
SAME(raw::kBlobRaw, NVTX_TYPE_PAYLOAD_SCHEMA_RAW);
SAME(raw::kFirstStaticSchema, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START);
SAME(raw::kFirstDynamicSchema, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
SAME(raw::SchemaType::kStatic, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
SAME(raw::SchemaType::kDynamic, NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC);
SAME(raw::SchemaType::kUnion, NVTX_PAYLOAD_SCHEMA_TYPE_UNION);
SAME(raw::SchemaType::kUnionInternalSelector,
     NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR);
SAME(raw::kSchemaDeepCopy, NVTX_PAYLOAD_SCHEMA_FLAG_DEEP_COPY);
SAME(raw::kSchemaReferenced, NVTX_PAYLOAD_SCHEMA_FLAG_REFERENCED);

SAME(raw::kEntryPointer, NVTX_PAYLOAD_ENTRY_FLAG_POINTER);
SAME(raw::kEntryOffsetFromBase, NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE);
SAME(raw::kEntryOffsetFromHere, NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE);
SAME(raw::kEntryArrayFixed, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE);
SAME(raw::kEntryArrayZeroTerminated, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED);
SAME(raw::kEntryArrayLengthIndex, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX);
SAME(raw::kEntryArrayLengthPayload, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX);
SAME(raw::kEntryDeepCopy, NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY);
SAME(raw::kEntryHide, NVTX_PAYLOAD_ENTRY_FLAG_HIDE);
SAME(raw::kEntryMessage, NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE);
SAME(raw::kEntryTimestamp, NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP);

#define SAME_TYPE(our, their) SAME(raw::kType##our, NVTX_PAYLOAD_ENTRY_TYPE_##their)
SAME_TYPE(Char, CHAR);
SAME_TYPE(Uchar, UCHAR);
SAME_TYPE(Short, SHORT);
SAME_TYPE(Ushort, USHORT);
SAME_TYPE(Int, INT);
SAME_TYPE(Uint, UINT);
SAME_TYPE(Long, LONG);
SAME_TYPE(Ulong, ULONG);
SAME_TYPE(LongLong, LONGLONG);
SAME_TYPE(UlongLong, ULONGLONG);
SAME_TYPE(Int8, INT8);
SAME_TYPE(Uint8, UINT8);
SAME_TYPE(Int16, INT16);
SAME_TYPE(Uint16, UINT16);
SAME_TYPE(Int32, INT32);
SAME_TYPE(Uint32, UINT32);
SAME_TYPE(Int64, INT64);
SAME_TYPE(Uint64, UINT64);
SAME_TYPE(Float, FLOAT);
SAME_TYPE(Double, DOUBLE);
SAME_TYPE(LongDouble, LONGDOUBLE);
SAME_TYPE(Size, SIZE);
SAME_TYPE(Address, ADDRESS);
SAME_TYPE(Wchar, WCHAR);
SAME_TYPE(Char8, CHAR8);
SAME_TYPE(Char16, CHAR16);
SAME_TYPE(Char32, CHAR32);
SAME_TYPE(Byte, BYTE);
SAME_TYPE(Int128, INT128);
SAME_TYPE(Uint128, UINT128);
SAME_TYPE(Float16, FLOAT16);
SAME_TYPE(Float32, FLOAT32);
SAME_TYPE(Float64, FLOAT64);
SAME_TYPE(Float128, FLOAT128);
SAME_TYPE(Bfloat16, BF16);
SAME_TYPE(Tf32, TF32);
SAME_TYPE(Category, CATEGORY);
SAME_TYPE(Color, COLOR_ARGB);
SAME_TYPE(Scope, SCOPE_ID);
SAME_TYPE(Pid32, PID_UINT32);
SAME_TYPE(Pid64, PID_UINT64);
SAME_TYPE(Tid32, TID_UINT32);
SAME_TYPE(Tid64, TID_UINT64);
SAME_TYPE(String, CSTRING);
SAME_TYPE(StringUtf8, CSTRING_UTF8);
SAME_TYPE(StringUtf16, CSTRING_UTF16);
SAME_TYPE(StringUtf32, CSTRING_UTF32);
SAME_TYPE(RegisteredString, NVTX_REGISTERED_STRING_HANDLE);
SAME_TYPE(UnionSelector, UNION_SELECTOR);
#ifdef NVTX_PAYLOAD_ENTRY_TYPE_RANGE_ID
SAME_TYPE(RangeId, RANGE_ID);
#endif
