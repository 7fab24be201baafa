// Step sampling: in range mode kSteps a process records some of its steps and rests in between.
//
// A step lasts from its beginning to the beginning of the next one. They are counted from 0, by the
// thread that began the first, so that processes that run in step record the same ones.
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::agent {

// A range begins that does not lie in one that began a step; it is not recorded yet. Returns whether
// it begins a step: recording may begin or end by that. Any thread, without a lease.
bool step_range_begins(std::string_view name, std::string_view domain) noexcept;

// A step begins, whatever says so. Any thread, without a lease.
void step_begins() noexcept;

}  // namespace warpline::agent
