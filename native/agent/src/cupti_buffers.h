// The memory that CUPTI writes its records into, recycled and bounded.
//
// CUPTI asks for a buffer in the midst of a launch. Memory that is new to the process, or that
// CUPTI has to clear, costs that launch a millisecond: so buffers are kept ready, in memory and
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

  // Makes up to `count` free buffers, ready to be lent. Any thread, at leisure.
  void keep_ready(std::size_t count) noexcept;

  // Lends a buffer of zeros and tells its size, or null when there may be no more. Any thread.
  std::uint8_t* take(std::size_t& bytes) noexcept;

  // Takes back a buffer of `bytes` bytes and clears it. Any thread, at leisure.
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
