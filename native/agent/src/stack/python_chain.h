// Python stacks of CUDA API calls, OS calls and samples.
#pragma once

#include <cstdint>

#include "stack/python_walk.h"

namespace warpline::agent {

class ThreadLog;
struct NativeStack;

// Walks the Python stack of the calling thread and writes its chain to the log, unless the log already
// has it, together with code that no log of the process has yet. Returns the chain's number, or 0 if
// there is none. Its frames say where they lie in `native`, the same thread's stack, if that was walked.
// The caller holds a lease of the log.
std::uint64_t write_python_chain(ThreadLog& log, const NativeStack& native,
                                 PythonPlace place) noexcept;

// The same with a Python stack that was walked already.
std::uint64_t write_python_stack(ThreadLog& log, const NativeStack& native, PythonStack& stack) noexcept;

}  // namespace warpline::agent
