#include "blocked_place.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace warpline::sampler {

BlockedPlace blocked_place(std::uint32_t pid, std::uint32_t tid) noexcept {
  char path[64];
  char text[256];
  std::snprintf(path, sizeof path, "/proc/%u/task/%u/syscall", pid, tid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (bytes <= 0) return {};
  text[bytes] = '\0';
  // "NUMBER ARGUMENTS SP PC", "-1 SP PC" outside of a system call, or "running".
  const char* last = std::strrchr(text, ' ');
  if (last == nullptr) return {};
  const char* before = last;
  while (before > text && before[-1] != ' ') --before;
  return {std::strtoull(last, nullptr, 16), std::strtoull(before, nullptr, 16)};
}

std::size_t read_process(pid_t pid, std::uint64_t address, void* room, std::size_t bytes) noexcept {
  const iovec here{room, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

}  // namespace warpline::sampler
