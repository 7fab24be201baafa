#include "blocked_place.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace warpline::sampler {

namespace {

// Reads the beginning of a file of a thread in /proc; false if there is nothing to read.
template <std::size_t kSize>
bool read_of_thread(std::uint32_t pid, std::uint32_t tid, const char* name,
                    char (&text)[kSize]) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/task/%u/%s", pid, tid, name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : read(file, text, kSize - 1);
  if (file >= 0) close(file);
  text[bytes > 0 ? bytes : 0] = '\0';
  return bytes > 0;
}

}  // namespace

BlockedPlace blocked_place(std::uint32_t pid, std::uint32_t tid) noexcept {
  char text[256];
  if (!read_of_thread(pid, tid, "syscall", text)) return {};
  // "NUMBER ARGUMENTS SP PC", "-1 SP PC" outside of a system call, or "running".
  const char* last = std::strrchr(text, ' ');
  if (last == nullptr) return {};
  const char* before = last;
  while (before > text && before[-1] != ' ') --before;
  return {std::strtoull(last, nullptr, 16), std::strtoull(before, nullptr, 16), text[0] != '-'};
}

bool sleeps_in_kernel(std::uint32_t pid, std::uint32_t tid, std::uint32_t* cpu) noexcept {
  char text[1024];
  if (!read_of_thread(pid, tid, "stat", text)) return false;
  // "TID (NAME) STATE ...": a name may have parentheses, too.
  const char* name_end = std::strrchr(text, ')');
  if (name_end == nullptr) return false;
  if (cpu != nullptr) {
    constexpr int kState = 3, kCpu = 39;  // fields
    const char* at = name_end + 1;
    for (int field = kState; field < kCpu && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
    *cpu = at == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(at, nullptr, 10));
  }
  return std::strncmp(name_end, ") D", 3) == 0 || std::strncmp(name_end, ") S", 3) == 0;
}

std::size_t read_process(pid_t pid, std::uint64_t address, void* room, std::size_t bytes) noexcept {
  const iovec here{room, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

}  // namespace warpline::sampler
