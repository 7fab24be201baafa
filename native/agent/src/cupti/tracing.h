// CUDA tracing of this process: begun when the driver loads the agent or when a profiler in the
// process asks, resting while recording is off, ended in order at exit.
#pragma once

#include <string>

namespace warpline::agent {

// Begins to trace CUDA for the session attached. Returns 0, or an errno value: ENOTCONN without a
// session, ENOTSUP when the session does not ask for CUDA or CUPTI cannot be used (a note in the
// recording says why). Tracing that has begun is left as it is. Any thread. It is late when the
// program has initialised CUDA before.
int begin_cuda_tracing(bool is_late) noexcept;

// Uses CUPTI once, before CUDA is in use: a first use while other threads call CUDA can crash the program (see
// start_up.h). It is left at once, and costs the program's launches nothing. agent.conf in the folder of the launch
// names CUPTI; without it, or without CUDA in it, nothing is done. From within cuInit.
void prepare_cuda_tracing(const std::string& folder) noexcept;

// Whether CUPTI was used in this process, by this or by a recording.
bool is_cuda_prepared() noexcept;

// Ends it: what CUPTI still holds is written down, and another profiler may take its place. Before
// the session is left. Any thread but those that CUPTI calls.
void end_cuda_tracing() noexcept;

// Looks at once whether recording was turned on or off, which is otherwise noticed within
// milliseconds. Any thread, without a lease.
void follow_recording_state() noexcept;

}  // namespace warpline::agent
