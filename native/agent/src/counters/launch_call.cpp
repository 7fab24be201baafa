#include "counters/launch_call.h"

#include <algorithm>
#include <functional>

#include "counters/abi.h"
#include "machine/cuda_driver.h"

namespace warpline::agent {
namespace {

struct NamedRole {
  std::string_view start;
  Role role;
};
// By how the name of a driver's call begins; the first that fits. What is uncountable is a launch of
// work that has no range of its own, or none that CUPTI gets right.
constexpr NamedRole kRoles[] = {
    {"cuLaunchKernelEx", Role::kLaunchEx},
    {"cuLaunchKernel", Role::kLaunch},
    {"cuLaunchCooperativeKernelMultiDevice", Role::kUncountable},
    {"cuLaunchCooperativeKernel", Role::kLaunch},
    {"cuLaunchHostFunc", Role::kNone},
    {"cuLaunch", Role::kUncountable},
    {"cuGraphLaunch", Role::kUncountable},
    {"cuStreamBeginCapture", Role::kCaptureBegin},
    {"cuStreamEndCapture", Role::kCaptureEnd},
    {"cuStreamDestroy", Role::kStreamEnds},
};

}  // namespace

LaunchCall launch_call(std::string_view name) noexcept {
  for (const NamedRole& known : kRoles) {
    if (name.starts_with(known.start)) return {known.role, name.ends_with("_ptsz")};
  }
  return {};
}

Launch launch_of(LaunchCall call, const cupti::CallData& data) noexcept {
  Launch launch;
  launch.mangled = data.symbol;
  launch.is_per_thread = call.is_per_thread;
  const auto take = [&launch](const auto& shape) {
    std::copy_n(shape.grid, 3, launch.grid);
    std::copy_n(shape.block, 3, launch.block);
    launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    launch.stream = shape.stream;
  };
  if (call.role == Role::kLaunch) {
    const auto& parameters = *static_cast<const cupti::LaunchParameters*>(data.parameters);
    launch.function = parameters.function;
    take(parameters);
  } else {
    const auto& parameters = *static_cast<const cupti::LaunchExParameters*>(data.parameters);
    launch.function = parameters.function;
    if (parameters.config != nullptr) take(*parameters.config);
  }
  return launch;
}

std::uint64_t hash_of(const Launch& launch) noexcept {
  const std::string_view name(launch.mangled == nullptr ? "" : launch.mangled);
  std::uint64_t hash = std::hash<std::string_view>{}(name);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t extent = std::uint64_t{launch.grid[i]} << 32 | launch.block[i];
    hash = (hash ^ extent) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash | 1;  // 0 is no hash
}

FunctionFacts facts_of(void* function) noexcept {
  constexpr int kSharedBytes = 1;
  constexpr int kLocalBytes = 3;
  constexpr int kRegisters = 4;
  const Driver driver;
  FunctionFacts facts;
  if (!driver.call("cuFuncGetAttribute", &facts.registers, kRegisters, function)) {
    // What is launched may be a CUkernel, of which each context has a function.
    void* of_context = nullptr;
    if (!driver.call("cuKernelGetFunction", &of_context, function)) return facts;
    function = of_context;
    driver.call("cuFuncGetAttribute", &facts.registers, kRegisters, function);
  }
  driver.call("cuFuncGetAttribute", &facts.static_shared_bytes, kSharedBytes, function);
  driver.call("cuFuncGetAttribute", &facts.local_bytes, kLocalBytes, function);
  return facts;
}

}  // namespace warpline::agent
