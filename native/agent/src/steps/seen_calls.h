// Calls observed during the search for a pattern, stored per thread.
//
// Each thread writes its own; one other thread, the watcher, reads. A search is a round: calls
// of earlier rounds are discarded. Nothing is overwritten within a round.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "steps/launch_period.h"

namespace warpline::agent {

// The calls of one thread. All zeros initially: not assigned to a thread.
class SeenCalls {
 public:
  static constexpr std::size_t kMost = 80'000;  // of a thread in a round

  // Copies what was kept in this round, the oldest first. The watcher. May throw std::bad_alloc.
  void read(std::vector<ObservedCall>& into) const;
  std::size_t count() const noexcept;

 private:
  friend void keep_call(CallSignature signature, std::int64_t time_ns) noexcept;

  bool take(std::uint32_t thread) noexcept;
  void keep(const ObservedCall& call) noexcept;
  ObservedCall* calls() const noexcept;

  std::atomic<std::uint32_t> thread_;  // 0: free
  std::atomic<std::uint32_t> round_;   // that the calls belong to
  std::atomic<std::size_t> count_;
};
inline constexpr std::size_t kSeenThreads = 16;  // as many threads are told apart
extern SeenCalls g_seen_calls[kSeenThreads];

// Maps their memory, which is used on demand. Returns whether that succeeded.
bool prepare_seen_calls() noexcept;

// Starts a round. The watcher, or before it runs.
void forget_seen_calls() noexcept;

// Releases the memory until more calls are stored. The watcher, after a round.
void release_seen_calls() noexcept;

// Returns the number of calls stored by all threads in this round.
std::size_t seen_calls() noexcept;

// Stores a call of this thread, if there is room. Any thread.
void keep_call(CallSignature signature, std::int64_t time_ns) noexcept;

// Whether a thread's calls are those of this thread.
bool is_of_this_thread(const SeenCalls* calls) noexcept;

}  // namespace warpline::agent
