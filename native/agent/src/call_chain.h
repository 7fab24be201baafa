// Call chains: which calls of the program lead to a CUDA call.
#pragma once

#include <cstdint>

namespace warpline::agent {

class ThreadLog;

// Walks the calling thread's stack and writes its chain to the log, unless the log has it already,
// together with the modules that the process has loaded meanwhile. Returns the chain's number, or 0
// if there is none. With a lease of the log held.
std::uint64_t write_chain(ThreadLog& log) noexcept;

}  // namespace warpline::agent
