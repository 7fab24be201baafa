// The stack of the calling thread.
//
// Most programs and libraries for GPUs are built without frame pointers, so the walk follows the
// tables that compilers write for exceptions (.eh_frame), and keeps what it has learned of each
// return address: a frame that was met before costs a look-up and two loads. Only the thread's own
// stack and the tables of loaded modules are read, each within its bounds: whatever is in them, the
// walk ends, and never faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::agent {

inline constexpr std::size_t kMaxFrames = 64;

struct NativeStack {
  std::size_t count = 0;
  std::uint64_t frames[kMaxFrames];   // return addresses, innermost first
  std::uint64_t bottoms[kMaxFrames];  // where the stack of each function begins: it ends at the next
};

// Fills the stack of the calling thread; frames of the agent itself are left out. There are none on a
// stack that is not the thread's own, such as a coroutine's. Any thread; the first call of a thread,
// and a return address that is new, may allocate.
void walk_stack(NativeStack& found) noexcept;

// A thread as a signal's handler found it: registers, and a copy of its stack from the stack pointer on.
struct CopiedStack {
  std::uint64_t instruction = 0;
  std::uint64_t stack_pointer = 0;
  std::uint64_t frame_pointer = 0;
  std::uint64_t bytes = 0;
  const char* copy = nullptr;
};

// Fills the stack of a copy; the first frame is the instruction itself. Returns whether the walk has come to
// the stack's end, or has filled all frames. Any thread.
bool walk_copy(const CopiedStack& stack, NativeStack& found) noexcept;

// Whether bytes lie in the used part of the calling thread's stack, and so can be read.
bool is_on_own_stack(std::uint64_t address, std::size_t bytes) noexcept;

}  // namespace warpline::agent
