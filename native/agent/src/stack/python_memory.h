// How memory of the interpreter is read: as it is, or copied by the kernel.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "session/process.h"
#include "stack/python_frames.h"
#include "stack/walk.h"

namespace warpline::agent {

// Memory that is known to be there.
struct OwnMemory {
  const char* view(std::uint64_t address, std::size_t, char*) noexcept {
    return reinterpret_cast<const char*>(address);
  }
  const char* view_frame(std::uint64_t address, std::size_t bytes) noexcept {
    return view(address, bytes, nullptr);
  }
  void expect(const std::uint64_t*, std::size_t, std::size_t) noexcept {}
  const char* view_expected(std::uint64_t address, std::size_t, std::size_t bytes) noexcept {
    return view(address, bytes, nullptr);
  }
};

// Memory that may not be there: the kernel copies it, for which it is asked as seldom as possible.
class CopiedMemory {
 public:
  // Whether the kernel does this for the process.
  static bool is_allowed() noexcept {
    char from = 0, to;
    const iovec there{&from, 1};
    return copy(&there, 1, &to, 1) == 1;
  }

  // Only who knows its stack reads that as it is: a signal's handler and who reads another thread's memory
  // do not.
  explicit CopiedMemory(bool knows_stack = true) noexcept : knows_stack_(knows_stack) {}

  const char* view(std::uint64_t address, std::size_t bytes, char* room) noexcept {
    if (is_readable(address, bytes)) return reinterpret_cast<const char*>(address);
    const iovec there{reinterpret_cast<void*>(address), bytes};
    return copy(&there, 1, room, bytes) == bytes ? room : nullptr;
  }

  // Of frames: the callers of one lie below it, mostly.
  const char* view_frame(std::uint64_t address, std::size_t bytes) noexcept {
    if (is_readable(address, bytes)) return reinterpret_cast<const char*>(address);
    if (address < page_ || address + bytes > page_end_) {
      page_ = address & ~(kPageBytes - 1);
      page_end_ = address + bytes;
      const iovec there{reinterpret_cast<void*>(page_), page_end_ - page_};
      if (copy(&there, 1, page_copy_, there.iov_len) != there.iov_len) {
        page_ = page_end_ = 0;
        return nullptr;
      }
    }
    return page_copy_ + (address - page_);
  }

  // Copies what lies at addresses, at most kMostExpected of them, all at once; view_expected has them then.
  void expect(const std::uint64_t* addresses, std::size_t count, std::size_t bytes) noexcept {
    iovec there[stack::kMostExpected];
    for (std::size_t i = 0; i < count; ++i) {
      there[i] = {reinterpret_cast<void*>(addresses[i]), bytes};
    }
    expected_ = copy(there, count, expected_copies_, count * bytes) / bytes;
  }
  const char* view_expected(std::uint64_t, std::size_t i, std::size_t bytes) noexcept {
    return i < expected_ ? expected_copies_ + i * bytes : nullptr;
  }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;

  bool is_readable(std::uint64_t address, std::size_t bytes) const noexcept {
    return knows_stack_ && is_on_own_stack(address, bytes);
  }

  static std::size_t copy(const iovec* there, std::size_t count, char* room,
                          std::size_t bytes) noexcept {
    const iovec here{room, bytes};
    const auto pid = static_cast<pid_t>(g_process->pid);
    const ssize_t copied = process_vm_readv(pid, &here, 1, there, count, 0);
    return copied < 0 ? 0 : static_cast<std::size_t>(copied);
  }

  bool knows_stack_;
  std::uint64_t page_ = 0;
  std::uint64_t page_end_ = 0;
  std::size_t expected_ = 0;
  char page_copy_[kPageBytes + stack::kMostObjectBytes];
  char expected_copies_[stack::kMostExpected * stack::kMostObjectBytes];
};

}  // namespace warpline::agent
