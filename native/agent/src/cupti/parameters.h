// Parameters of CUDA calls: the stream and event of a call, and whether
// it moves anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cupti/abi.h"
#include "warpline_records.h"

namespace warpline::agent {

// Which objects a call refers to, and their place in its parameters.
enum class Concerns : std::uint8_t {
  kNothing,
  kCurrentContext,
  kGivenContext,
  kStream,
  kStreamAndEvent,  // in this order
  kEventAndStream,
  kEvent,
  kEventOnly,  // and no context: it ends
};

// Where the parameters of a copy or a fill have its size.
enum class Volume : std::uint8_t { kUnknown, kPlain, kWithKind, kPeer };

// How the parameters of a call are read. `name` is without "cuda" and "cu".
struct Parameters {
  Concerns concerns = Concerns::kNothing;
  Volume volume = Volume::kUnknown;
  bool is_per_thread = false;  // no stream means the calling thread's own
};
Parameters parameters_of(std::string_view name, bool is_runtime) noexcept;

// Adds the stream and event of a call to its record. Queries CUPTI for stream ids, once per stream
// until forget_streams(). At the exit of the call, in its thread.
void add_target(const cupti::Functions& functions, Parameters parameters,
                const cupti::CallData& call, raw::Call& record) noexcept;

// Whether a copy or memset has no bytes, or involves no device: no record of GPU
// work follows.
bool moves_nothing(Volume volume, const cupti::CallData& call) noexcept;

// Call it before streams are destroyed, or if they may have been: their handles may be
// reused. Any thread.
void forget_streams() noexcept;

}  // namespace warpline::agent
