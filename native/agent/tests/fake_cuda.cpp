// A stand-in for the CUDA driver: it loads what CUDA_INJECTION64_PATH names, as the driver does.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
bool g_is_initialised = false;
constexpr int kNotInitialised = 3;
constexpr int kInvalidValue = 1;
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

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == 50) *value = 1;
  if (attribute == 33) *value = 0xab;
  if (attribute == 34) *value = device;
  return g_is_initialised ? 0 : kNotInitialised;
}
