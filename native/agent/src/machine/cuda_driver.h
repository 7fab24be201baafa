// Functions of the program's CUDA driver; the agent does not link to one.
#pragma once

#include <dlfcn.h>

namespace warpline::agent {

// The driver, while it is loaded by the program.
class Driver {
 public:
  Driver() noexcept : library_(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Driver() {
    if (library_ != nullptr) dlclose(library_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  bool is_loaded() const noexcept { return library_ != nullptr; }

  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const noexcept {
    if (library_ == nullptr) return false;
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* library_;
};

}  // namespace warpline::agent
