// A stand-in for the library that manages GPUs: it knows one, at FAKE_NVML_PLACE, with the number
// FAKE_NVML_INDEX.
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
constexpr int kUninitialised = 1;
constexpr int kNotFound = 6;
int g_begun = 0;
int g_device = 0;
}  // namespace

EXPORT int nvmlInit_v2() {
  ++g_begun;
  return 0;
}

EXPORT int nvmlShutdown() {
  --g_begun;
  return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  if (g_begun == 0) return kUninitialised;
  const char* known = std::getenv("FAKE_NVML_PLACE");
  if (known == nullptr || std::strcmp(known, place) != 0) return kNotFound;
  *device = &g_device;
  return 0;
}

EXPORT int nvmlDeviceGetIndex(void* device, unsigned* index) {
  if (g_begun == 0 || device != &g_device) return kUninitialised;
  *index = static_cast<unsigned>(std::atoi(std::getenv("FAKE_NVML_INDEX")));
  return 0;
}
