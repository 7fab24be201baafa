// What tells a CUDA call from others, for whoever looks for a pattern among them.
#pragma once

#include <cstdint>
#include <string_view>

#include "cupti_abi.h"
#include "launch_period.h"

namespace warpline::agent {

// How the signature of a call is made; kNot: it has no part in patterns.
enum class SignatureForm : std::uint8_t {
  kNot,
  kCall,          // of the call alone: copies, fills, waits
  kLaunch,        // and that it launches: what, it does not say
  kFunction,      // what is launched is the first parameter
  kKernel,        // the same, and the grid follows
  kConfigKernel,  // a configuration that begins with the grid, then what is launched
};

// Returns the form for a call. `name` is without "cuda" and "cu".
SignatureForm signature_form(std::string_view name) noexcept;

// Returns the signature of a call from its parameters, which may be missing. In the call's thread,
// before it has returned to the program.
CallSignature signature_of(SignatureForm form, std::uint32_t domain, std::uint32_t id,
                           const void* parameters) noexcept;

}  // namespace warpline::agent
