// Program counters of the kernels that the program runs, sampled by the GPU all the time.
//
// CUPTI's continuous mode: kernels run as ever, also at the same time and in graphs, and no call of the
// program is delayed. The agent's watcher takes the samples from CUPTI and writes sums of them down, at
// intervals that grow: if the process is killed, at most the last eighth of its run is missing.
#pragma once

#include <cstdint>

#include "cupti/abi.h"
#include "cupti/library.h"

namespace warpline::agent {

struct Session;

// Begins to sample for a session that asks for it: contexts from their creation on, and if it is late,
// as CUDA is initialized, primary contexts that are there already. A note tells why if that cannot be.
// Once the subscriber of tracing is there.
void begin_sampling(const Session& session, const CuptiLibrary& library,
                    cupti::Subscriber subscriber, bool is_late) noexcept;

// Ends it, and writes down the rest. Not from within a callback. At the end of the process it waits for
// no longer than a few seconds: kernels may run forever.
void end_sampling(bool is_exit) noexcept;

// Takes what CUPTI has, when it is time, and writes it down, when it is time. A few times a second or
// more, from the agent's watcher.
void tick_sampling() noexcept;

// Takes what CUPTI has and writes it down: the program is about to be ended.
void flush_sampling() noexcept;

// Takes a callback of the domain of resources: contexts and modules come and go.
void sample_resource(std::uint32_t id, const cupti::ResourceData& resource) noexcept;

// Takes a callback of the driver's domain. Returns whether the call was of concern to sampling alone:
// nothing else asked for its callback.
bool sample_call(std::uint32_t id, const cupti::CallData& call) noexcept;

}  // namespace warpline::agent
