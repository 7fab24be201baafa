// How to get from a function to its caller, as .eh_frame tells it.
#pragma once

#include <cstdint>

namespace warpline::agent {

// Where a frame's caller left the stack and the frame pointer. The return address lies just below
// the caller's stack.
struct FrameRule {
  enum class Base : std::uint8_t { kUnknown, kStackPointer, kFramePointer, kOutermost };

  Base base = Base::kUnknown;      // of the caller's stack pointer
  std::int32_t offset = 0;         // from that base
  std::int32_t frame_pointer = 0;  // where the caller's frame pointer was saved, from the caller's
                                   // stack pointer; 0: it is still in its register

  // As one word, and back.
  std::uint64_t packed() const noexcept {
    return static_cast<std::uint64_t>(base) << 62 |
           (static_cast<std::uint64_t>(offset) & 0x7fffffff) << 31 |
           (static_cast<std::uint64_t>(frame_pointer) & 0x7fffffff);
  }
  static FrameRule unpacked(std::uint64_t word) noexcept {
    return {static_cast<Base>(word >> 62), widened(word >> 31), widened(word)};
  }

 private:
  static std::int32_t widened(std::uint64_t bits) noexcept {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits << 1)) >> 1;
  }
};

// Returns the rule at an instruction, or one that is kUnknown where no module tells it. Takes the
// loader's lock for a moment.
FrameRule frame_rule_at(std::uint64_t instruction) noexcept;

// Counts the modules that were unloaded so far: rules of before may be wrong.
std::uint64_t modules_unloaded() noexcept;

}  // namespace warpline::agent
