#include "cupti/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "session/lock.h"

namespace warpline::agent {
namespace {

std::uint8_t* map_memory(std::size_t bytes, int more_flags) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

}  // namespace

void BufferPool::configure(std::size_t bytes, std::size_t max_buffers) noexcept {
  const Lock lock(lock_);
  if (bytes != bytes_) {
    while (free_count_ != 0) munmap(free_[--free_count_], bytes_);
  }
  bytes_ = bytes;
  max_buffers_ = std::min(max_buffers, kMaxFree);
}

void BufferPool::keep_ready(std::size_t count) noexcept {
  for (;;) {
    std::size_t bytes = 0;
    {
      const Lock lock(lock_);
      if (free_count_ >= count || lent_ + free_count_ >= max_buffers_) return;
      bytes = bytes_;
    }
    std::uint8_t* buffer = map_memory(bytes, MAP_POPULATE);
    if (buffer == nullptr) return;
    const Lock lock(lock_);
    if (bytes == bytes_ && free_count_ < kMaxFree) {
      free_[free_count_++] = buffer;
    } else {
      munmap(buffer, bytes);
    }
  }
}

std::uint8_t* BufferPool::take(std::size_t& bytes) noexcept {
  const Lock lock(lock_);
  bytes = bytes_;
  if (free_count_ != 0) {
    ++lent_;
    return free_[--free_count_];
  }
  if (lent_ >= max_buffers_) return nullptr;
  std::uint8_t* buffer = map_memory(bytes_, 0);
  if (buffer != nullptr) ++lent_;
  return buffer;
}

std::size_t BufferPool::lent() noexcept {
  const Lock lock(lock_);
  return lent_;
}

void BufferPool::give_back(std::uint8_t* buffer, std::size_t bytes) noexcept {
  std::memset(buffer, 0, bytes);
  const Lock lock(lock_);
  if (lent_ != 0) --lent_;
  if (bytes == bytes_ && free_count_ < kMaxFree) {
    free_[free_count_++] = buffer;
  } else {
    munmap(buffer, bytes);
  }
}

}  // namespace warpline::agent
