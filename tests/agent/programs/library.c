// A library with an instance of NVTX of its own, as PyTorch and NCCL are.
#include <nvtx3/nvToolsExt.h>

__attribute__((visibility("default"))) void library_work(nvtxStringHandle_t registered) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = registered;
  nvtxDomainMarkEx(nvtxDomainCreateA("shared"), &attributes);
  nvtxRangePop();
}
