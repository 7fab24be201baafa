// Memory of another process, copied by the kernel without stopping it.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/python_frames.h"

namespace warpline::sampler {

// Copies what lies at an address of a process. False unless all of it can be read.
inline bool copy_from(pid_t pid, std::uint64_t address, void* room, std::size_t bytes) noexcept {
  const iovec here{room, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

// The same for words at several addresses, at most 16.
inline bool copy_words(pid_t pid, const std::uint64_t* addresses, std::size_t count,
                       std::uint64_t* words) noexcept {
  constexpr std::size_t kMost = 16;
  iovec there[kMost];
  for (std::size_t i = 0; i < count; ++i) {
    there[i] = {reinterpret_cast<void*>(addresses[i]), sizeof *words};
  }
  const iovec here{words, count * sizeof *words};
  const ssize_t copied = process_vm_readv(pid, &here, 1, there, count, 0);
  return copied == static_cast<ssize_t>(here.iov_len);
}

// A place that a walk begins at, copied both before and after everything else: if its word is the same
// then, what lies between is of one moment.
struct Anchor {
  std::uint64_t address = 0;  // 0: none
  std::uint64_t before = 0;
  std::uint64_t after = 0;
};

// What a walk of a stack reads. Pages that the thread's last walk needed are copied all at once, so that
// they are of one moment; others are copied when they are met.
class RemoteMemory {
 public:
  static constexpr std::size_t kMostPages = 32;
  static constexpr std::size_t kMostAnchors = 3;
  static constexpr std::uint64_t kPageBytes = 4096;

  struct Pages {
    std::size_t count = 0;
    std::uint64_t addresses[kMostPages];
  };

  explicit RemoteMemory(pid_t pid) noexcept : pid_(pid) {}

  // Copies anchors and pages, in this order. False if an anchor cannot be read.
  bool begin(Anchor* anchors, std::size_t anchor_count, const Pages& pages) noexcept;

  // Whether everything that was read since was of begin's pages.
  bool is_one_copy() const noexcept { return !has_missed_; }
  // Whether the anchors are still the same: then everything that was read since begin is of one moment, too.
  bool is_unmoved() const noexcept;
  // The pages that were read since, in order.
  const Pages& used() const noexcept { return used_; }

  const char* view(std::uint64_t address, std::size_t bytes, char* room) noexcept {
    if (bytes == sizeof(std::uint64_t)) return view_frame(address, bytes);  // links of a stack
    return copy_from(pid_, address, room, bytes) ? room : nullptr;
  }
  const char* view_frame(std::uint64_t address, std::size_t bytes) noexcept;
  void expect(const std::uint64_t* addresses, std::size_t count, std::size_t bytes) noexcept;
  const char* view_expected(std::uint64_t, std::size_t i, std::size_t bytes) noexcept {
    return i < expected_ ? expected_copies_ + i * bytes : nullptr;
  }

 private:
  const char* find(std::uint64_t address, std::size_t bytes) noexcept;
  void use(std::uint64_t page) noexcept;

  pid_t pid_;
  const Anchor* anchors_ = nullptr;
  std::size_t anchor_count_ = 0;
  bool has_missed_ = false;
  Pages pages_;
  Pages used_;
  std::size_t expected_ = 0;
  char copies_[kMostPages * kPageBytes];
  char crossing_[stack::kMostObjectBytes];  // a frame on two pages
  char expected_copies_[stack::kMostExpected * stack::kMostObjectBytes];
};

}  // namespace warpline::sampler
