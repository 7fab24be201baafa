#include "cupti/call_signature.h"

#include <algorithm>
#include <iterator>

namespace warpline::agent {
namespace {

struct Start {
  std::string_view text;
  SignatureForm form;
};
// By how a name begins; the first that fits. Versions and variants have the same first parameters.
constexpr Start kStarts[] = {
    {"LaunchHostFunc", SignatureForm::kNot},
    {"LaunchCooperativeKernelMultiDevice", SignatureForm::kLaunch},
    {"LaunchKernelEx", SignatureForm::kConfigKernel},
    {"LaunchKernel", SignatureForm::kKernel},
    {"LaunchCooperativeKernel", SignatureForm::kKernel},
    {"Launch", SignatureForm::kFunction},
    {"GraphLaunch", SignatureForm::kFunction},
    {"Memcpy", SignatureForm::kCall},
    {"Memset", SignatureForm::kCall},
    // Not the queries: how often they are made depends on the moment.
    {"DeviceSynchronize", SignatureForm::kCall},
    {"StreamSynchronize", SignatureForm::kCall},
    {"EventSynchronize", SignatureForm::kCall},
    {"CtxSynchronize", SignatureForm::kCall},
};

// The first parameters of calls that launch.
struct FunctionParameters {
  std::uint64_t function;
};
struct KernelParameters {
  std::uint64_t function;
  std::uint32_t grid[3];
};
struct ConfigKernelParameters {
  const std::uint32_t* config;
  std::uint64_t function;
};

constexpr unsigned kFunctionBits = kGridBit - kFunctionBit;

constexpr std::uint64_t mix(std::uint64_t value) {
  value *= 0x9e3779b97f4a7c15;
  return value ^ value >> 32;
}

CallSignature with_function(CallSignature call, std::uint64_t function) noexcept {
  // Never 0, which means that the function is not known.
  const std::uint64_t bits = mix(function) >> (64 - kFunctionBits) | 1;
  return call | bits << kFunctionBit;
}

CallSignature with_grid(CallSignature call, const std::uint32_t* grid) noexcept {
  const std::uint64_t sizes = mix(mix(grid[0]) + grid[1]) + grid[2];
  return call | mix(sizes) >> kGridBit << kGridBit;
}

}  // namespace

SignatureForm signature_form(std::string_view name) noexcept {
  const auto* found = std::find_if(std::begin(kStarts), std::end(kStarts), [name](const Start& one) {
    return name.starts_with(one.text);
  });
  return found == std::end(kStarts) ? SignatureForm::kNot : found->form;
}

CallSignature signature_of(SignatureForm form, std::uint32_t domain, std::uint32_t id,
                           const void* parameters) noexcept {
  CallSignature call = call_number(domain, id);
  if (form == SignatureForm::kCall) return call;
  call |= kIsLaunch;
  if (parameters == nullptr) return call;
  if (form == SignatureForm::kFunction) {
    return with_function(call, static_cast<const FunctionParameters*>(parameters)->function);
  }
  if (form == SignatureForm::kKernel) {
    const auto& kernel = *static_cast<const KernelParameters*>(parameters);
    return with_grid(with_function(call, kernel.function), kernel.grid);
  }
  if (form == SignatureForm::kConfigKernel) {
    const auto& kernel = *static_cast<const ConfigKernelParameters*>(parameters);
    call = with_function(call, kernel.function);
    return kernel.config == nullptr ? call : with_grid(call, kernel.config);
  }
  return call;
}

}  // namespace warpline::agent
