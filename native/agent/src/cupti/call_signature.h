// Signatures of CUDA calls, for detecting a periodic pattern.
#pragma once

#include <cstdint>
#include <string_view>

#include "cupti/abi.h"
#include "steps/launch_period.h"

namespace warpline::agent {

// How to compute the signature of a call; kNot: not part of patterns.
enum class SignatureForm : std::uint8_t {
  kNot,
  kCall,          // from the call alone: copies, memsets, waits
  kLaunch,        // the same, and it launches unknown work
  kFunction,      // the launched function is the first parameter
  kKernel,        // the same, and the grid follows
  kConfigKernel,  // a configuration that starts with the grid, then the launched function
};

// Returns the form for a call. `name` is without "cuda" and "cu".
SignatureForm signature_form(std::string_view name) noexcept;

// Returns the signature of a call from its parameters, which may be missing. In the call's thread,
// before it has returned to the program.
CallSignature signature_of(SignatureForm form, std::uint32_t domain, std::uint32_t id,
                           const void* parameters) noexcept;

}  // namespace warpline::agent
