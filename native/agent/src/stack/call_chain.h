// Backtraces of CUDA API calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/loaded_rules.h"

namespace warpline::agent {

class ThreadLog;
struct NativeStack;

// Walks the calling thread's stack into `stack` and writes its chain to the log, unless the log already has it,
// together with modules of its addresses that no log of the process has. Returns the chain's number, or 0
// if there is none. The caller holds a lease of the log.
std::uint64_t write_chain(ThreadLog& log, NativeStack& stack) noexcept;

// The same with return addresses that were found already.
std::uint64_t write_frames(ThreadLog& log, const std::uint64_t* frames, std::size_t count,
                           StackOf whose) noexcept;

// Writes the modules of the process that no log of it has yet: without them addresses have no names.
// Takes the loader's lock: for threads of the agent and of CUPTI. The caller holds a lease of the log.
void write_modules(ThreadLog& log) noexcept;

}  // namespace warpline::agent
