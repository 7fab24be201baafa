// The driver's calls that matter for counting, and what a launch is.
#pragma once

#include <cstdint>
#include <string_view>

#include "cupti/abi.h"

namespace warpline::agent {

// What a call means for counting; launches are the first, up to kUncountable.
enum class Role : std::uint8_t {
  kNone, kLaunch, kLaunchEx, kUncountable, kCaptureBegin, kCaptureEnd, kStreamEnds
};

struct LaunchCall {
  Role role = Role::kNone;
  bool is_per_thread = false;  // its default stream is that of the thread
};

// What the driver's call of this name is.
LaunchCall launch_call(std::string_view name) noexcept;

struct Launch {
  const char* mangled = nullptr;
  void* function = nullptr;
  void* stream = nullptr;
  std::uint32_t grid[3] = {};
  std::uint32_t block[3] = {};
  std::uint32_t dynamic_shared_bytes = 0;
  bool is_per_thread = false;
};

// Returns the launch that a call with parameters makes; its role is one of the two.
Launch launch_of(LaunchCall call, const cupti::CallData& data) noexcept;

// A hash of what makes a launch the same in each step: name, grid and block. Never 0.
std::uint64_t hash_of(const Launch& launch) noexcept;

// The attributes of a function that its launch does not tell.
struct FunctionFacts {
  int registers = 0;
  int static_shared_bytes = 0;
  int local_bytes = 0;
};

FunctionFacts facts_of(void* function) noexcept;

}  // namespace warpline::agent
