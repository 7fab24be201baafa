// A stand-in for the CUDA driver: it loads what CUDA_INJECTION64_PATH names, as the driver does.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
bool g_is_initialised = false;
constexpr int kNotInitialised = 3;
constexpr int kInvalidValue = 1;
int g_contexts[2];
thread_local void* t_current = nullptr;
}  // namespace

EXPORT int cuInit(unsigned) {
  if (g_is_initialised) return 0;
  g_is_initialised = true;
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return 0;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  auto* initialise =
      library == nullptr ? nullptr
                         : reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialise == nullptr || initialise() != 1) {
    std::fprintf(stderr, "injection failed: %s\n", library == nullptr ? dlerror() : path);
    return kInvalidValue;
  }
  return 0;
}

EXPORT int cuDriverGetVersion(int* version) {
  const char* text = std::getenv("FAKE_DRIVER_VERSION");
  *version = text == nullptr ? 13000 : std::atoi(text);
  return 0;
}

EXPORT int cuDeviceGetCount(int* count) {
  *count = 2;
  return g_is_initialised ? 0 : kNotInitialised;
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return g_is_initialised ? 0 : kNotInitialised;
}

EXPORT int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = 1;
  return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &g_contexts[device];
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
  t_current = context;
  return 0;
}

// Work ends when it is waited for: the file that FAKE_SYNCHRONIZED names tells of it.
EXPORT int cuCtxSynchronize() {
  const char* path = std::getenv("FAKE_SYNCHRONIZED");
  if (path != nullptr && t_current != nullptr) std::fclose(std::fopen(path, "a"));
  return t_current == nullptr ? kInvalidValue : 0;
}

EXPORT int cuCtxPopCurrent_v2(void** context) {
  *context = t_current;
  t_current = nullptr;
  return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return 0; }

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == 50) *value = 1;
  if (attribute == 33) *value = 0xab;
  if (attribute == 34) *value = device;
  return g_is_initialised ? 0 : kNotInitialised;
}
