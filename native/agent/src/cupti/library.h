// Finds and opens CUPTI in the program's environment; it is never linked.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cupti/abi.h"

namespace warpline::agent {

struct CuptiLibrary {
  cupti::Functions functions{};  // for use: the library's own, unless CUPTI is shared
  cupti::Functions own{};        // for a subscriber alone
  cupti::SubscriberFunctions shared{};
  bool has_shared = false;  // all of these are there
  bool is_shared = false;   // with another profiler
  std::uint32_t version = 0;
  std::string file;

  explicit operator bool() const { return version != 0; }
};

// Finds further functions in the library that the agent uses.
class FunctionFinder {
 public:
  explicit FunctionFinder(const CuptiLibrary& library) noexcept
      : handle_(dlopen(library.file.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {}
  ~FunctionFinder() {
    if (handle_ != nullptr) dlclose(handle_);  // the agent holds the library open
  }
  FunctionFinder(const FunctionFinder&) = delete;
  FunctionFinder& operator=(const FunctionFinder&) = delete;

  template <class Function>
  void need(const char* name, Function& function) noexcept {
    function = handle_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  // The first function that the library lacks; null if it has all.
  const char* missing() const noexcept { return missing_; }

 private:
  void* handle_;
  const char* missing_ = nullptr;
};

// Candidate paths of CUPTI, most likely first: `asked` (from the session), next to libraries that
// the program has loaded (toolkits and Python packages), CUDA_HOME and CUDA_PATH, the usual places
// of toolkits, the loader's path. Libraries of a newer major version than the driver's come last:
// they are incompatible. Major 0: unknown.
std::vector<std::string> cupti_candidates(const std::vector<std::string>& asked, int driver_major);

// The driver's CUDA version, such as 13030 for 13.3; 0 if the driver is not loaded.
int cuda_driver_version();

// Opens CUPTI: the one already loaded, or else the first candidate that works. When
// none does, `problem` has the candidates and the reasons.
CuptiLibrary open_cupti(const std::vector<std::string>& asked, std::string& problem);

}  // namespace warpline::agent
