// A stand-in for the CUDA driver: it loads what CUDA_INJECTION64_PATH names, as the driver does. With
// FAKE_CUDA_CONTEXTS, no primary context is in use until a file of that name exists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fake_cupti.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
bool g_is_initialised = false;
constexpr int kNotInitialised = 3;
constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
// Handles of kernels: the first of each kind; they are 0x1000 apart.
constexpr std::uint64_t kFunctions = 0x1'0000'0000;
constexpr std::uint64_t kKernels = 0x2'0000'0000;  // what launches also take: CUkernel
thread_local std::vector<void*> t_contexts;           // the current one last
FakeIsCapturing g_is_capturing = nullptr;             // by the fake CUPTI, which has the streams

// Contexts of the two devices take turns: 0x1000, that of device 0, 0x2000, of device 1, 0x3000...
void* primary_context(int device) {
  return reinterpret_cast<void*>(std::uintptr_t{0x1000} * static_cast<unsigned>(device + 1));
}
void* current() { return t_contexts.empty() ? nullptr : t_contexts.back(); }
}  // namespace

EXPORT void fake_bind(FakeIsCapturing is_capturing) { g_is_capturing = is_capturing; }

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
  static const char* const path = std::getenv("FAKE_CUDA_CONTEXTS");
  *flags = 0;
  *is_active = path == nullptr || access(path, F_OK) == 0;
  return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = primary_context(device);
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
  t_contexts.push_back(context);
  return 0;
}

// Invalidates a capture that any thread has begun, as the real one does: the agent may not call it.
EXPORT int cuCtxSynchronize() { std::abort(); }

EXPORT int cuCtxPopCurrent_v2(void** context) {
  *context = current();
  if (!t_contexts.empty()) t_contexts.pop_back();
  return 0;
}

EXPORT int cuCtxSetCurrent(void* context) {
  if (!t_contexts.empty()) t_contexts.pop_back();
  t_contexts.push_back(context);
  return 0;
}

EXPORT int cuCtxGetCurrent(void** context) {
  *context = current();
  return 0;
}

EXPORT int cuCtxGetDevice(int* device) {
  if (current() == nullptr) return kInvalidContext;
  *device = static_cast<int>((reinterpret_cast<std::uintptr_t>(current()) / 0x1000 + 1) % 2);
  return 0;
}

EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  *status = g_is_capturing == nullptr ? 0 : g_is_capturing(handle);
  return 0;
}

EXPORT int cuKernelGetFunction(void** function, void* kernel) {
  const auto handle = reinterpret_cast<std::uintptr_t>(kernel);
  if (handle < kKernels || current() == nullptr) return kInvalidHandle;
  *function = reinterpret_cast<void*>(handle - kKernels + kFunctions);
  return 0;
}

// Kernel k has 128 k bytes of shared memory, 8 k of local memory, and 32 + k registers.
EXPORT int cuFuncGetAttribute(int* value, int attribute, void* function) {
  const auto handle = reinterpret_cast<std::uintptr_t>(function);
  const bool is_function = handle >= kFunctions && handle < kKernels && handle % 0x1000 == 0;
  if (!is_function) return kInvalidHandle;
  const int kernel = static_cast<int>((handle - kFunctions) / 0x1000);
  if (attribute == 1) *value = 128 * kernel;
  if (attribute == 3) *value = 8 * kernel;
  if (attribute == 4) *value = 32 + kernel;
  return attribute == 1 || attribute == 3 || attribute == 4 ? 0 : kInvalidValue;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return 0; }

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute == 50) *value = 1;
  if (attribute == 33) *value = 0xab;
  if (attribute == 34) *value = device;
  if (!g_is_initialised) return kNotInitialised;
  if (attribute == 50 || attribute == 33 || attribute == 34) return 0;
  // The others are their number, below zero; those that can be divided by 10 are not known.
  *value = -attribute;
  return attribute % 10 == 0 ? kInvalidValue : 0;
}
