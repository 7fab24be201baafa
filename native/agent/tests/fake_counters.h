// The range profiler and the profiler host of the fake CUPTI, and the GPU that they count on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fake_cupti.h"

namespace fake_counters {

// Runs a kernel as the GPU would: once, or as often as a started profiler replays it. Returns the
// driver's status.
int run(const FakeLaunch& launch);

// A capture of a stream begins and ends; what is launched meanwhile makes the graph that is launched
// later. Each returns the driver's status.
int begin_capture(std::uint64_t context, std::uint64_t stream);
int end_capture(std::uint64_t context, std::uint64_t stream);
bool is_capturing(std::uint64_t stream);
int launch_graph(std::uint64_t context);

void begin_context(std::uint64_t context);
void end_context(std::uint64_t context);
void end_stream(std::uint64_t stream);

// Tells FAKE_CUPTI_LOG of a call.
void log_call(const char* what, std::uint32_t of);

// Whether a profiler is enabled: activity records cannot be turned on after it.
bool is_enabled();

}  // namespace fake_counters
