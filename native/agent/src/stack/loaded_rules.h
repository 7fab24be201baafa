// How to get from a function of a loaded module to its caller.
#pragma once

#include <cstdint>

#include "stack/frame_rules.h"

namespace warpline::agent {

// Returns the rule at an instruction, or one that is kUnknown where no module tells it. Takes the
// loader's lock for a moment.
stack::FrameRule frame_rule_at(std::uint64_t instruction) noexcept;

// The same from the code itself, for a thread with room for it: see stack::frame_rule_by_code. The lock is
// held for up to a tenth of a millisecond.
stack::FrameRule code_rule_at(std::uint64_t instruction) noexcept;

// Whether a call of a loaded module may return to an address.
bool may_return_to(std::uint64_t address) noexcept;

// Counts the modules that were unloaded so far: rules of before may be wrong.
std::uint64_t modules_unloaded() noexcept;

}  // namespace warpline::agent
