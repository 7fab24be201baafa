#include "real.h"

#include <dlfcn.h>

#include <initializer_list>

namespace warpline::shim {

// Of several versions of a function, dlsym finds the one that programs are linked with today. Before
// version 2.34 of the C library, threads and real-time functions are in libraries that the program may
// have loaded for itself only.
void* find_real(const char* symbol) noexcept {
  if (void* found = dlsym(RTLD_NEXT, symbol)) return found;
  for (const char* library : {"libpthread.so.0", "librt.so.1"}) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* found = dlsym(handle, symbol);
    dlclose(handle);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace warpline::shim
