// How to get from a function of a loaded module to its caller.
#pragma once

#include <cstdint>

#include "stack/frame_rules.h"

namespace warpline::agent {

// Whose stack is walked. The modules of a thread's own stack stay while it is walked, so they can be found without
// the loader's lock where loaded_modules.h has a way; otherwise it is taken for a moment.
enum class StackOf : std::uint8_t { kCaller, kOther };

// Returns the rule at an instruction, or one that is kUnknown where no module tells it.
stack::FrameRule frame_rule_at(std::uint64_t instruction, StackOf whose) noexcept;

// Whether modules were unloaded since the last call, as far as can be seen from where an instruction is: rules of
// before may be wrong.
bool modules_were_unloaded(std::uint64_t instruction, StackOf whose) noexcept;

// The rule at an instruction from the code itself, for a thread with room for it: see stack::frame_rule_by_code. The
// loader's lock is held for up to a tenth of a millisecond.
stack::FrameRule code_rule_at(std::uint64_t instruction) noexcept;

// Whether a call of a loaded module may return to an address.
bool may_return_to(std::uint64_t address) noexcept;

}  // namespace warpline::agent
