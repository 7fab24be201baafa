// How to get from a function to its caller, as .eh_frame tells it.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

namespace warpline::stack {

// Where a frame's caller left the stack and the frame pointer. The return address lies just below
// the caller's stack.
struct FrameRule {
  // What the caller's stack pointer is counted from.
  enum class Base : std::uint8_t {
    kUnknown,
    kStackPointer,
    kFramePointer,
    kOutermost,
    kAtStackPointer,  // it was saved in memory, at this pointer and the offset
    kAtFramePointer,  // the same of a frame that was aligned anew; its caller's frame pointer is
                      // where its own points to
    kLinkage,         // an entry of the linkage table, which has pushed a word from `offset` on
    kSignal,          // all registers were saved by the kernel: the frame is what it interrupted
  };
  static constexpr std::int32_t kMostOffset = 1 << 27;
  static constexpr std::uint8_t kMostAdded = 7;

  Base base = Base::kUnknown;
  std::uint8_t added_words = 0;    // kAt...: added to what was saved
  std::int32_t offset = 0;         // from that base
  std::int32_t frame_pointer = 0;  // where the caller's frame pointer was saved, from the caller's
                                   // stack pointer; 0: it is still in its register

  // As one word, and back.
  std::uint64_t packed() const noexcept {
    return static_cast<std::uint64_t>(base) << 61 | static_cast<std::uint64_t>(added_words) << 58 |
           (static_cast<std::uint64_t>(offset) & kBits) << 29 |
           (static_cast<std::uint64_t>(frame_pointer) & kBits);
  }
  static FrameRule unpacked(std::uint64_t word) noexcept {
    return {static_cast<Base>(word >> 61), static_cast<std::uint8_t>(word >> 58 & kMostAdded),
            widened(word >> 29), widened(word)};
  }

 private:
  static constexpr std::uint64_t kBits = (1u << 29) - 1;
  static std::int32_t widened(std::uint64_t bits) noexcept {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits << 3)) >> 3;
  }
};

// Where a function saved the other registers that it gives back to its caller: rbx, r12, r13, r14, r15.
struct SavedRegisters {
  static constexpr std::size_t kCount = 5;
  static constexpr std::int16_t kLost = INT16_MIN;

  // In words, from the caller's stack pointer; 0: they are still in their registers.
  std::int16_t at[kCount] = {};
};

// An ELF file as it lies in memory: loaded, or mapped as it is in the file, without its relocations.
struct ElfImage {
  const Elf64_Phdr* segments = nullptr;
  std::size_t segment_count = 0;
  std::uint64_t bias = 0;  // what addresses in the file are moved by to get those in memory
  bool is_file = false;    // not relocated: absolute addresses in it are to be moved, too
};

// Whether a segment of the image has a place in memory.
bool holds(const ElfImage& image, std::uint64_t place) noexcept;

// Returns the rule at an instruction, an address in memory, or one that is kUnknown where the image
// does not tell it. `saved` is filled if it is not null, and the rule is known.
FrameRule frame_rule_in(const ElfImage& image, std::uint64_t place,
                        SavedRegisters* saved = nullptr) noexcept;

// Returns where the function begins that an instruction is in, or 0 where the image does not tell it. A
// function may be in several parts.
std::uint64_t function_begin_in(const ElfImage& image, std::uint64_t place) noexcept;

}  // namespace warpline::stack
