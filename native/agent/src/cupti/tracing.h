// CUDA tracing of this process: begun when the driver loads the agent or when a profiler in the
// process asks, resting while recording is off, ended in order at exit.
#pragma once

namespace warpline::agent {

// Begins to trace CUDA for the session attached. Returns 0, or an errno value: ENOTCONN without a
// session, ENOTSUP when the session does not ask for CUDA or CUPTI cannot be used (a note in the
// recording says why). Tracing that has begun is left as it is. Any thread. It is late when the
// program has initialised CUDA before.
int begin_cuda_tracing(bool is_late) noexcept;

// Ends it: what CUPTI still holds is written down, and another profiler may take its place. Before
// the session is left. Any thread but those that CUPTI calls.
void end_cuda_tracing() noexcept;

// Looks at once whether recording was turned on or off, which is otherwise noticed within
// milliseconds. Any thread, without a lease.
void follow_recording_state() noexcept;

}  // namespace warpline::agent
