// CPU samples from within, for where the kernel forbids perf_event_open: a timer for each thread's CPU time,
// whose signal has the thread copy its stack, and a watcher that finds new threads, takes samples up and
// writes them to its own log.
//
// A signal cannot be hidden altogether from a program. It is SIGURG: where a program has set all signals to
// their default it is ignored, unlike others, which would end the program. Calls that it interrupts are
// restarted; those that never are (poll, sleep) see it only on kernels that interrupt threads while they wait.
// A program that handles SIGURG itself keeps it, and is no longer sampled.
#pragma once

namespace warpline::agent {

// Stops sampling and writes what was taken so far; before the process's logs are closed.
void finish_cpu_samples() noexcept;

// Samples the calling thread from now on, where threads are sampled.
void sample_this_thread() noexcept;

}  // namespace warpline::agent
