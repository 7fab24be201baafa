// Where a thread of another process is blocked, without stopping it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace warpline::sampler {

struct BlockedPlace {
  std::uint64_t instruction = 0;  // 0: it is not blocked, or may not be looked at
  std::uint64_t stack_pointer = 0;
  bool is_in_call = false;  // of the kernel; otherwise it has not asked to wait

  bool operator==(const BlockedPlace&) const = default;
};

// Where it called the kernel, or a page was missing. Needs the right to trace the process.
BlockedPlace blocked_place(std::uint32_t pid, std::uint32_t tid) noexcept;

// Whether a thread sleeps in the kernel, and no signal or debugger has stopped it. One that sleeps
// without having called the kernel waits for a page. `cpu`: where it has run last.
bool sleeps_in_kernel(std::uint32_t pid, std::uint32_t tid, std::uint32_t* cpu = nullptr) noexcept;

// Reads memory of a process; returns how many bytes there were from the beginning on.
std::size_t read_process(pid_t pid, std::uint64_t address, void* room, std::size_t bytes) noexcept;

}  // namespace warpline::sampler
