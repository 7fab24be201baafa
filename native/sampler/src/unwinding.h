// The callers of a function of another process, from its registers and a copy of its stack.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "code_map.h"
#include "stack/climb.h"

namespace warpline::sampler {

inline constexpr std::size_t kMostCallers = 512;

// The stack of a thread: a copy of its inner part, and what lies above it in the process. That is
// read when it is needed, if the stack has not changed meanwhile: then the outer part of the copy is
// still the same there.
class StackMemory {
 public:
  StackMemory(pid_t pid, std::uint64_t stack_pointer, const std::byte* copy, std::size_t bytes,
              std::vector<std::byte>& room) noexcept
      : pid_(pid), begin_(stack_pointer), copy_(copy), bytes_(bytes), room_(room) {}

  bool read(std::uint64_t address, std::uint64_t& word) noexcept;

 private:
  bool has_outer(std::uint64_t address) noexcept;

  pid_t pid_;
  std::uint64_t begin_;
  const std::byte* copy_;
  std::size_t bytes_;
  std::vector<std::byte>& room_;   // for the outer part, shared by all
  std::uint64_t outer_begin_ = 0;
  std::uint64_t outer_end_ = 0;
  bool is_changed_ = false;
};

// The registers that a function gives back to its caller, as they are in a frame.
struct KeptRegisters {
  static constexpr std::size_t kCount = 1 + stack::SavedRegisters::kCount;

  std::uint64_t values[kCount] = {};  // the frame pointer first
  bool are_known[kCount] = {};
};

// A frame of a function that is watched for.
struct WatchedFrame {
  std::uint32_t caller = 0;   // how many addresses of callers were found before it
  bool is_innermost = false;  // of the program's own functions
  std::uint64_t stack_pointer = 0;
  std::uint64_t caller_stack_pointer = 0;
  KeptRegisters kept;
};

struct CodeRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool holds(std::uint64_t address) const noexcept { return begin <= address && address < end; }
};

struct Callers {
  std::vector<std::uint64_t> addresses;  // that calls return to, innermost first
  std::vector<WatchedFrame> watched;
  bool is_complete = false;

  void clear() noexcept {
    addresses.clear();
    watched.clear();
  }
};

class Unwinder {
 public:
  // Appends the callers of the function that an instruction is in, and its frames with code that is
  // watched for. `kept` are its registers, where they are known.
  void walk(CodeMap& code, stack::Registers from, StackMemory& memory, bool by_frame_pointers,
            Callers& found, const KeptRegisters& kept = {}, CodeRange watched = {});

 private:
  // How to leave a function. If only its code says so, its caller must look like one.
  struct KnownRule {
    const ElfFile* file = nullptr;
    std::uint64_t address = 0;
    stack::FrameRule rule;
    bool is_by_code = false;
    stack::SavedRegisters saved;
  };
  // A frame to be left: the instruction in it, where that is, and whether a call has returned to it.
  struct Frame {
    std::uint64_t place;
    const CodeMapping* mapping;
    bool is_return;
  };

  const KnownRule& rule_at(const CodeMapping& mapping, std::uint64_t place, bool is_return);
  // Makes the registers those of the caller. Returns also where the others were saved.
  stack::Climbed go_up(CodeMap& code, const Frame& frame, bool by_frame_pointers,
                       stack::Registers& now, StackMemory& memory,
                       const stack::SavedRegisters*& saved);

  static constexpr std::size_t kKnown = std::size_t{1} << 15;
  // Where no table tells, other registers are lost.
  static constexpr std::int16_t kLost = stack::SavedRegisters::kLost;
  static constexpr stack::SavedRegisters kAllLost{{kLost, kLost, kLost, kLost, kLost}};
  std::vector<KnownRule> known_ = std::vector<KnownRule>(kKnown);
};

}  // namespace warpline::sampler
