// Which chains a thread's log already has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent {

// The chains of a kind that a log has, by their number; of two that share a place the later.
struct WrittenChains {
  static constexpr std::size_t kKnown = 1024;

  std::uint64_t generation;
  const ThreadLog* log;
  std::uint64_t numbers[kKnown];

  // Returns where a number stands, if this log has its chain.
  std::uint64_t& place_of(std::uint64_t number, const ThreadLog& of_log) noexcept {
    const std::uint64_t now = g_process->generation.load(std::memory_order_relaxed);
    if (generation != now || log != &of_log) [[unlikely]] *this = {now, &of_log, {}};
    return numbers[number % kKnown];
  }
};

// The number of a chain: a hash of its words, never 0.
inline std::uint64_t chain_number(const std::uint64_t* words, std::size_t count) noexcept {
  std::uint64_t hash = count;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash == 0 ? 1 : hash;
}

// Writes a chain to a log. False where there is no space.
inline bool write_words(ThreadLog& log, raw::Kind kind, std::uint64_t number,
                        const std::uint64_t* words, std::size_t count) noexcept {
  std::uint64_t* room = log.reserve(2 + count);
  if (room == nullptr) return false;
  room[1] = number;
  for (std::size_t i = 0; i < count; ++i) room[2 + i] = words[i];
  log.commit(room, kind, 0, 2 + count, 0, false);
  return true;
}

}  // namespace warpline::agent
