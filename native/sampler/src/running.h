// Programs that run already when they are first looked at: what the kernel's records say of others.
#pragma once

#include <sys/types.h>

#include <vector>

#include "images.h"
#include "perf_events.h"

namespace warpline::sampler {

// Has all threads of processes and of their descendants watched, also those that start meanwhile, and what
// they start. Returns 0, or a number of errno: ESRCH if none of the processes is alive.
int watch_running(const std::vector<pid_t>& roots, PerfEvents& events);

// Takes in the processes and their descendants as they are: their threads and their code.
void read_running(const std::vector<pid_t>& roots, Images& images);

// Notes of the threads that are blocked that they have been so since a time up to which all records are
// taken in: there is none of when they stopped.
void note_blocked(Images& images, std::uint64_t since_ns);

}  // namespace warpline::sampler
