// What the parameters of a CUDA call say: the stream and the event that it concerns, and whether
// it moves anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cupti_abi.h"

namespace warpline::agent {

// What a call concerns, and where its parameters have it.
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

// The words that a kCall record has of what it concerns, and the flags that say so.
struct Target {
  std::uint8_t flags = 0;
  std::uint8_t count = 0;
  std::uint64_t words[2];
};

// Reads what a call concerns. Asks CUPTI for the numbers of streams, once for each until
// forget_streams(). At the exit of the call, in its thread.
Target target_of(const cupti::Functions& functions, Parameters parameters,
                 const cupti::CallData& call) noexcept;

// Whether a copy or fill is of no bytes, or one that no device has to do with: no record of device
// work follows.
bool moves_nothing(Volume volume, const cupti::CallData& call) noexcept;

// To be called when streams are about to end, or may have ended unseen: their handles may come to
// mean others. Any thread.
void forget_streams() noexcept;

}  // namespace warpline::agent
