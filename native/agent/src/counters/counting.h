// Hardware counters of the kernels that the program launches, through CUPTI's range profiler.
//
// A launch that is counted runs alone: while it is, no other thread launches. Where one pass is
// enough the counters stay programmed from launch to launch, each of which is a range; else CUPTI
// repeats the launch, with memory restored in between. Neither is ever on while a graph is launched
// or a stream captured: CUPTI would lose the graph, or spoil the capture.
#pragma once

#include <cstdint>

#include "cupti/abi.h"
#include "cupti/library.h"

namespace warpline::agent {

struct Session;

// Begins to count for a session that asks for it; a note tells why if that cannot be. With tracing,
// once its subscriber is there.
void begin_counting(const Session& session, const CuptiLibrary& library,
                    cupti::Subscriber subscriber) noexcept;

// Writes down what was counted, and ends counting. Not from within a callback. At the end of the
// process the profilers are left as they are, which would take up to half a second each to free.
void end_counting(bool is_exit) noexcept;

// Follows recording: whether launches are counted from now on. Any thread.
void switch_counting(bool is_on) noexcept;

// Lets time pass: counting rests where it has taken its share, and goes on later. A few times a second or
// more, from a thread of the agent.
void tick_counting() noexcept;

// Takes a callback of the driver's domain; does nothing for calls that do not concern it.
void count_call(std::uint32_t id, const cupti::CallData& data) noexcept;

// A context is about to be destroyed.
void forget_context(void* context) noexcept;

}  // namespace warpline::agent
