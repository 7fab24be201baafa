// Step sampling: in range mode kSteps a process records some of its steps and pauses in between.
//
// A step lasts from its start to the start of the next one. They are counted from 0, by the
// thread that started the first, so that processes in lockstep record the same ones.
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::agent {

// A range begins that does not lie in one that began a step; it is not recorded yet. Returns whether
// it begins a step: recording may begin or end by that. Any thread, without a lease.
bool step_range_begins(std::string_view name, std::string_view domain) noexcept;

// A step starts at a call of the program. Any thread, without a lease.
void step_begins() noexcept;

// The plan after a step has started.
struct NextSample {
  bool is_counted;         // false: steps are marked, the launches say nothing
  bool is_recording;
  std::uint64_t in_steps;  // so many steps from this one the next sample begins; 0: not known
};

// A step begins, as the launches say: the `to`th after the last one counted, though `passed` may
// have passed since. One thread, until steps_by_launch_end(); without a lease.
NextSample step_begins_by_launch(std::uint64_t to, std::uint64_t passed) noexcept;

// Steps are no longer detected from launches: this process has none. Its caller makes CUDA tracing
// follow. Returns false if it could not be done now. Any thread.
bool steps_by_launch_end() noexcept;

// Whether no range and no call marks steps in this process, and its session goes on. Any thread.
bool launches_may_begin_steps() noexcept;

// The expected pause after a sample of the given duration; 0: this process does not
// pause, or it is unknown. Any thread.
std::int64_t likely_rest_ns(std::int64_t sample_ns) noexcept;

// Chooses which steps are recorded, unless given or already chosen. Any thread.
void plan_samples(std::int64_t step_ns) noexcept;

}  // namespace warpline::agent
