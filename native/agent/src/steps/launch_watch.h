// Step sampling for programs that mark no steps: they are told from the calls of CUDA, whose
// sequence repeats itself.
//
// At first the calls that launch, copy, set and wait are seen, all of them up to a bound, and kept
// by thread; the tracing's watcher looks for their period. Once it is found, a step begins whenever
// the anchor, a call that occurs once in it, returns. At rest only calls of the anchor's kind are
// seen where they are few; otherwise none, for as long as the rest should last by the clock, and
// after that those of the anchor's kind until it occurs. When the anchor stays away, or nothing was
// found, the next search begins as soon as searches have taken little enough of the run.
#pragma once

#include <atomic>
#include <cstdint>

#include "steps/launch_period.h"

namespace warpline::agent {

struct Session;

// Which calls to observe.
struct WatchedCalls {
  enum class Which : std::uint32_t { kNone, kAll, kOne };
  Which which = Which::kNone;
  std::uint32_t number = 0;  // call_number(), of kOne

  bool operator==(const WatchedCalls&) const = default;
};

// Starts and stops watching: with tracing, in range mode kSteps. One thread at a time.
void begin_launch_watch(const Session& session) noexcept;
void end_launch_watch() noexcept;

// Which calls to observe now, in addition to the recorded ones. Any thread.
WatchedCalls watched_calls() noexcept;

extern std::atomic<bool> g_sees_calls;

// Whether see_call has an effect. Any thread.
inline bool sees_calls() noexcept { return g_sees_calls.load(std::memory_order_relaxed); }

// Takes a call that has just returned and began at a time: recording may begin or end by that, with
// the very next call. Any thread, without a lease.
void see_call(CallSignature signature, std::int64_t time_ns) noexcept;

// Periodic work: searches for the period, ends a pause. The tracing's watcher, at every tick.
void tick_launch_watch() noexcept;

}  // namespace warpline::agent
