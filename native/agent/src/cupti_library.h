// CUPTI found in the program's environment and opened; it is never linked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cupti_abi.h"

namespace warpline::agent {

struct CuptiLibrary {
  cupti::Functions functions{};  // to be used: the library's own, unless it is shared
  cupti::Functions own{};        // for a subscriber alone
  cupti::SubscriberFunctions shared{};
  bool has_shared = false;  // all of these are there
  bool is_shared = false;   // with another profiler
  std::uint32_t version = 0;
  std::string file;

  explicit operator bool() const { return version != 0; }
};

// Where CUPTI may be, likeliest first: `asked` (from the session), beside the CUDA libraries that
// the program has loaded (toolkits and Python packages), CUDA_HOME and CUDA_PATH, the usual places
// of toolkits, the loader's path. Libraries of a newer major version than the driver's come last:
// they do not work with it. Major 0: not known.
std::vector<std::string> cupti_candidates(const std::vector<std::string>& asked, int driver_major);

// The CUDA version that the driver offers, such as 13030 for 13.3; 0 when the driver is not loaded.
int cuda_driver_version();

// Opens CUPTI: the one that is already in the process, or else the first candidate that works. When
// none does, `problem` says what was tried and why it failed.
CuptiLibrary open_cupti(const std::vector<std::string>& asked, std::string& problem);

}  // namespace warpline::agent
