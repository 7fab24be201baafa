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

// Writes the return addresses of the calling thread, innermost first, into `frames`, which has room
// for kMaxFrames; those of the agent itself are left out. Returns how many there are: none on a
// stack that is not the thread's own, such as a coroutine's. Any thread; the first call of a
// thread, and a return address that is new, may allocate.
std::size_t walk_stack(std::uint64_t* frames) noexcept;

// Whether bytes lie in the used part of the calling thread's stack, and so can be read.
bool is_on_own_stack(std::uint64_t address, std::size_t bytes) noexcept;

}  // namespace warpline::agent
