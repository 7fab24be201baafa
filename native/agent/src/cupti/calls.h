// The program's CUDA API calls, runtime and driver, one record each.
#pragma once

#include <cstdint>

#include "cupti/abi.h"
#include "session/config.h"
#include "steps/launch_watch.h"

namespace warpline::agent {

struct Session;

// Whether cudaProfilerStart and cudaProfilerStop bound what is recorded in a session.
bool profiler_calls_bound_ranges(const Session& session) noexcept;

// Whether calls are recorded with their stream and event, from which waits are derived.
bool tells_targets(const CudaConfig& config) noexcept;

// Chooses the calls to record from those of this CUPTI, by name: call ids are looked up,
// not assumed. Before the callbacks of a session are turned on.
void choose_calls(const cupti::Functions& functions, const CudaConfig& config) noexcept;

// Turns callbacks on and off: those of the chosen calls are on while they are recorded, those of
// the watched ones always. One thread at a time. Calls in progress during a change are
// not recorded.
void switch_calls(const cupti::Functions& functions, cupti::Subscriber subscriber, bool records,
                  WatchedCalls watched) noexcept;

// Turns on what stays on while recording is off: cudaProfilerStart and cudaProfilerStop (and the
// driver's), which bound capture ranges, and the calls that create CUDA graphs. Once in a
// session, after choose_calls.
void keep_calls_on(const cupti::Functions& functions, cupti::Subscriber subscriber, bool profilers,
                   bool graphs) noexcept;

// Turns on one call of the driver that stays on in this session, too. After keep_calls_on.
void keep_driver_call_on(const cupti::Functions& functions, cupti::Subscriber subscriber,
                         std::uint32_t id) noexcept;

// Notifications of on_call, called without any lock or lease.
struct CallHooks {
  void (*recording_changed)() noexcept;  // a capture range was opened or closed
  void (*graph_comes)() noexcept;        // a call that creates a CUDA graph starts
  void (*wait_over)(std::int64_t now_ns) noexcept;  // a call that waited for the GPU ended
};

// Handles one callback of the runtime or driver domain. Any thread.
void on_call(std::uint32_t domain, std::uint32_t id, const cupti::CallData& data,
             const CallHooks& hooks) noexcept;

// Makes on_call ignore this thread's calls: the agent's own.
void ignore_calls_of_this_thread() noexcept;

}  // namespace warpline::agent
