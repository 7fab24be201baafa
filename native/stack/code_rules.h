// How to get from a function to its caller, as its machine code tells it, for code without tables.
#pragma once

#include <cstdint>

#include "stack/frame_rules.h"

namespace warpline::stack {

// Follows the code from an instruction to where its function returns, and keeps account of the stack
// pointer and the frame pointer. Returns the rule, or one that is kUnknown: where the code cannot be
// followed, or two ways out of it contradict each other. Takes no memory, a few microseconds, and about
// 12 KiB of the stack. x86-64 only.
FrameRule frame_rule_by_code(const ElfImage& image, std::uint64_t place) noexcept;

// Whether the instruction before an address in memory is a call, so that the address may be one that
// a call returns to.
bool is_behind_call(const ElfImage& image, std::uint64_t address) noexcept;

}  // namespace warpline::stack
