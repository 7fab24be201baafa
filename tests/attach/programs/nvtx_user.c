// A library with an instance of NVTX; compiled as C and as C++.
#include <nvtx3/nvToolsExt.h>

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
#define EXPORT extern "C" __attribute__((visibility("default")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#ifdef OTHER_TOOL
// Another tool, which is linked in, has the ranges of this library.
static int tool_ranges;
static int tool_push(const char *name) { return name[0] == '\0' ? -1 : ++tool_ranges; }

static int tool(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks *callbacks =
      (const NvtxExportTableCallbacks *)get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned size;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size);
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)tool_push;
  return 1;
}
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = tool;

EXPORT int tool_count(const char *text) {
  (void)text;
  return tool_ranges;
}
#endif

EXPORT int use(const char *name) {
  nvtxRangePushA(name);
  nvtxRangePop();
  return 0;
}

// A range that begins, and one that ends; what they return.
EXPORT int push(const char *name) { return nvtxRangePushA(name); }
EXPORT int pop(const char *name) {
  (void)name;
  return nvtxRangePop();
}

// In a domain, and by a string, that are made at the first call.
EXPORT int use_domain(const char *name) {
  static nvtxDomainHandle_t domain;
  static nvtxStringHandle_t text;
  static int is_made;
  if (!is_made) {
    domain = nvtxDomainCreateA("domain");
    text = nvtxDomainRegisterStringA(domain, "registered");
    is_made = 1;
  }
  nvtxEventAttributes_t event;
  memset(&event, 0, sizeof event);
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain, &event);
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = text;
  const nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &event);
  nvtxDomainRangeEnd(domain, id);
  nvtxDomainRangePop(domain);
  nvtxDomainMarkEx(domain, &event);
  return 0;
}

// How many functions the instance calls.
EXPORT int functions(const char *text) {
  (void)text;
  const void *const *first = (const void *const *)&nvtxGlobals_v3.nvtxMarkEx_impl_fnptr;
  const size_t bytes = offsetof(nvtxGlobals_t, functionTable_CORE) - offsetof(nvtxGlobals_t, nvtxMarkEx_impl_fnptr);
  int count = 0;
  for (size_t i = 0; i < bytes / sizeof *first; ++i) count += first[i] != NULL;
  return count;
}

EXPORT int state(const char *text) {
  (void)text;
  return (int)nvtxGlobals_v3.initState;
}
