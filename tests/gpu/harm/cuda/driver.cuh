// The driver's functions, found in its library at run time: no stub of libcuda is needed to link.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include "harm.cuh"

// DRIVER(cuCtxCreate)(...) calls the version that the headers name, such as cuCtxCreate_v4.
#define DRIVER(name) DRIVER_NAMED(name)
#define DRIVER_NAMED(name) \
  harm::checked(#name, reinterpret_cast<decltype(&name)>(harm::driver_function(#name)))

namespace harm {

inline void* library_function(void* library, const char* name) {
  void* found = library ? dlsym(library, name) : nullptr;
  if (found) return found;
  std::printf("no function %s: %s\n", name, dlerror());
  std::fflush(stdout);
  _exit(3);
}

inline void* driver_function(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library_function(library, name);
}

// Makes a function of the driver end the program where it fails.
template <typename... Parameters>
auto checked(const char* name, CUresult(CUDAAPI* function)(Parameters...)) {
  return [name, function](Parameters... arguments) {
    const CUresult status = function(arguments...);
    if (status == CUDA_SUCCESS) return;
    std::printf("%s: error %d\n", name, static_cast<int>(status));
    std::fflush(stdout);
    _exit(3);
  };
}

inline CUdevice driver_device() {
  DRIVER(cuInit)(0);
  CUdevice device = 0;
  DRIVER(cuDeviceGet)(&device, 0);
  return device;
}

inline CUcontext make_context(CUdevice device) {
  CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
  DRIVER(cuCtxCreate)(&context, nullptr, 0, device);
#else
  DRIVER(cuCtxCreate)(&context, 0, device);
#endif
  return context;
}

}  // namespace harm
