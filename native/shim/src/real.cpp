#include "real.h"

#include <dlfcn.h>

#include <cstring>
#include <initializer_list>

extern "C" decltype(dlvsym) dlvsym __attribute__((weak));  // other C libraries have none

namespace warpline::shim {
namespace {

void* find_in(const char* library, const char* symbol) noexcept {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = dlsym(handle, symbol);
  dlclose(handle);
  return found;
}

}  // namespace

void* find_real(const char* symbol) noexcept {
  void* next = dlsym(RTLD_NEXT, symbol);
  if (next == nullptr) {
    // Before version 2.34 of the C library, threads and real-time functions are in libraries that the
    // program may have loaded for itself only.
    for (const char* library : {"libpthread.so.0", "librt.so.1"}) {
      if (void* found = find_in(library, symbol)) return found;
    }
    return nullptr;
  }
  // Before 2.36, RTLD_NEXT finds the oldest version of a function, such as the condition variables of 2.2.5;
  // a library itself gives the one that programs are linked with today. Most are in the C library, and asking
  // where another lies takes longer.
  if (next == find_in("libc.so.6", symbol)) return next;
  Dl_info library;
  if (dladdr(next, &library) == 0 || library.dli_fname == nullptr) return next;
  void* newest = find_in(library.dli_fname, symbol);
  return newest == nullptr ? next : newest;
}

void* find_real_early(const char* symbol) noexcept {
#if defined(__x86_64__)
  // The one family whose oldest version does something else with the same memory.
  constexpr char kCondition[] = "pthread_cond_";
  if (dlvsym != nullptr && std::strncmp(symbol, kCondition, sizeof kCondition - 1) == 0) {
    if (void* found = dlvsym(RTLD_NEXT, symbol, "GLIBC_2.3.2")) return found;
  }
#endif
  void* next = dlsym(RTLD_NEXT, symbol);
  return next == nullptr ? find_real(symbol) : next;
}

}  // namespace warpline::shim
