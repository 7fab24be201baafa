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

struct Callers {
  std::vector<std::uint64_t> addresses;  // that calls return to, innermost first
  std::vector<std::uint64_t> stacks;     // the stack pointer of each; that of the innermost function is first
  bool is_complete = false;
};

class Unwinder {
 public:
  // Appends the callers of the function that an instruction is in.
  void walk(CodeMap& code, stack::Registers from, StackMemory& memory, bool by_frame_pointers,
            Callers& found);

 private:
  // How to leave a function, and whether only its code says so: then its caller must look like one.
  struct Rule {
    stack::FrameRule rule;
    bool is_by_code = false;
  };
  Rule rule_at(const CodeMapping& mapping, std::uint64_t place, bool is_return);
  stack::Climbed go_up(CodeMap& code, bool is_return, bool by_frame_pointers, stack::Registers& now,
                       StackMemory& memory);

  struct KnownRule {
    const ElfFile* file = nullptr;
    std::uint64_t address = 0;
    Rule rule;
  };
  static constexpr std::size_t kKnown = std::size_t{1} << 15;
  std::vector<KnownRule> known_ = std::vector<KnownRule>(kKnown);
};

}  // namespace warpline::sampler
