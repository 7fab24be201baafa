// From a frame to its caller.
#pragma once

#include <cstdint>

#include "stack/frame_rules.h"

namespace warpline::stack {

struct Registers {
  std::uint64_t instruction;
  std::uint64_t stack_pointer;
  std::uint64_t frame_pointer;
};

enum class Climbed : std::uint8_t {
  kCaller,       // at the caller: the instruction is the one after its call
  kInterrupted,  // at what a signal interrupted: the instruction itself
  kOutermost,    // there is no caller
  kLost,         // there may be one, but it was not found
};

inline constexpr std::uint64_t kLeastCode = 4096;  // no code lies below

// Goes from a frame to its caller; `read(address, word)` returns whether it could read a word of the
// stack.
template <class Read>
Climbed climb(const FrameRule& rule, Registers& now, Read&& read) noexcept {
  using Base = FrameRule::Base;
  const auto plus = [](std::uint64_t base, std::int64_t offset) {
    return base + static_cast<std::uint64_t>(offset);
  };
  Registers caller{0, 0, now.frame_pointer};
  switch (rule.base) {
    case Base::kUnknown: return Climbed::kLost;
    case Base::kOutermost: return Climbed::kOutermost;
    case Base::kStackPointer: caller.stack_pointer = plus(now.stack_pointer, rule.offset); break;
    case Base::kFramePointer: caller.stack_pointer = plus(now.frame_pointer, rule.offset); break;
    case Base::kLinkage: {
      const bool has_pushed = (now.instruction & 15) >= static_cast<std::uint64_t>(rule.offset);
      caller.stack_pointer = now.stack_pointer + 8 + (has_pushed ? 8 : 0);
      break;
    }
    case Base::kAtFramePointer:
      if (!read(now.frame_pointer, caller.frame_pointer)) return Climbed::kLost;
      [[fallthrough]];
    case Base::kAtStackPointer: {
      const bool is_frame = rule.base == Base::kAtFramePointer;
      const std::uint64_t base = is_frame ? now.frame_pointer : now.stack_pointer;
      if (!read(plus(base, rule.offset), caller.stack_pointer)) return Climbed::kLost;
      caller.stack_pointer += std::uint64_t{8} * rule.added_words;
      break;
    }
    case Base::kSignal: {
      // Its stack begins with the kernel's ucontext; these are offsets of x86-64's.
      const std::uint64_t context = now.stack_pointer;
      const bool is_read = read(context + 168, caller.instruction) &&
                           read(context + 160, caller.stack_pointer) &&
                           read(context + 120, caller.frame_pointer);
      if (!is_read || caller.instruction < kLeastCode) return Climbed::kLost;
      now = caller;
      return Climbed::kInterrupted;
    }
  }
  if (caller.stack_pointer <= now.stack_pointer) return Climbed::kLost;
  if (!read(caller.stack_pointer - 8, caller.instruction)) return Climbed::kLost;
  if (rule.frame_pointer != 0) {
    // What lies below the stack pointer was popped already: the register has it again.
    const std::uint64_t saved = plus(caller.stack_pointer, rule.frame_pointer);
    const bool is_popped = saved < now.stack_pointer;
    if (!is_popped && !read(saved, caller.frame_pointer)) return Climbed::kLost;
  }
  now = caller;
  if (now.instruction == 0) return Climbed::kOutermost;
  return now.instruction < kLeastCode ? Climbed::kLost : Climbed::kCaller;
}

// The same where no rule is known, for code with frame pointers: each frame begins with its caller's,
// then the return address.
template <class Read>
Climbed climb_by_frame_pointer(Registers& now, Read&& read) noexcept {
  const std::uint64_t frame = now.frame_pointer;
  if (frame == 0) return Climbed::kOutermost;
  Registers caller{0, frame + 16, 0};
  if (frame < now.stack_pointer || frame % 8 != 0) return Climbed::kLost;
  if (!read(frame, caller.frame_pointer) || !read(frame + 8, caller.instruction)) {
    return Climbed::kLost;
  }
  if (caller.frame_pointer != 0 && caller.frame_pointer <= frame) return Climbed::kLost;
  now = caller;
  if (now.instruction == 0) return Climbed::kOutermost;
  return now.instruction < kLeastCode ? Climbed::kLost : Climbed::kCaller;
}

}  // namespace warpline::stack
