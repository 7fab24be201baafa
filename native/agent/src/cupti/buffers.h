// The memory that CUPTI writes its records into, recycled and bounded.
//
// CUPTI requests buffers during a launch. Memory that is new to the process, or that
// CUPTI has to clear, delays that launch by a millisecond. So buffers are prepared, resident and
// all zeros.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace warpline::agent {

class BufferPool {
 public:
  // Sets the size of a buffer, a multiple of a page, and how many there may be at a time. Buffers
  // of another size that are in use keep theirs.
  void configure(std::size_t bytes, std::size_t max_buffers) noexcept;

  // Prepares up to `count` free buffers. Any thread, not time-critical.
  void keep_ready(std::size_t count) noexcept;

  // Lends a zeroed buffer and returns its size, or null at the limit. Any thread.
  std::uint8_t* take(std::size_t& bytes) noexcept;

  // Returns how many buffers are lent. Any thread.
  std::size_t lent() noexcept;

  // Takes back a buffer of `bytes` bytes and clears it. Any thread, not time-critical.
  void give_back(std::uint8_t* buffer, std::size_t bytes) noexcept;

 private:
  static constexpr std::size_t kMaxFree = 1024;

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::size_t bytes_ = 2u << 20;
  std::size_t max_buffers_ = 64;
  std::size_t lent_ = 0;
  std::size_t free_count_ = 0;
  std::uint8_t* free_[kMaxFree] = {};
};

}  // namespace warpline::agent
