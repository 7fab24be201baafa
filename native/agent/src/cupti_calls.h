// The program's calls of the CUDA runtime and driver, one record each.
#pragma once

#include <cstdint>

#include "config.h"
#include "cupti_abi.h"
#include "launch_watch.h"

namespace warpline::agent {

struct Session;

// Whether cudaProfilerStart and cudaProfilerStop bound what is recorded in a session.
bool profiler_calls_bound_ranges(const Session& session) noexcept;

// Whether calls tell which stream and event they concern, so that waits follow from them.
bool tells_targets(const CudaConfig& config) noexcept;

// Chooses the calls to record from those that this CUPTI knows, by name: call ids are looked up,
// not assumed. Before the callbacks of a session are turned on.
void choose_calls(const cupti::Functions& functions, const CudaConfig& config) noexcept;

// Turns callbacks on and off: those of the chosen calls are on while they are recorded, those of
// the watched ones in any case. One thread at a time. Calls that are under way when one changes are
// not recorded.
void switch_calls(const cupti::Functions& functions, cupti::Subscriber subscriber, bool records,
                  WatchedCalls watched) noexcept;

// Turns on what stays on while recording is off: cudaProfilerStart and cudaProfilerStop (and the
// driver's), which bound capture ranges, and the calls by which CUDA graphs come to be. Once in a
// session, after choose_calls.
void keep_calls_on(const cupti::Functions& functions, cupti::Subscriber subscriber, bool profilers,
                   bool graphs) noexcept;

// What on_call tells, without any lock or lease held.
struct CallHooks {
  void (*recording_changed)() noexcept;  // a capture range was opened or closed
  void (*graph_comes)() noexcept;        // a call begins that makes a CUDA graph
  void (*wait_over)(std::int64_t now_ns) noexcept;  // a call ended that waited for the device
};

// Takes one callback of the runtime's or the driver's domain. Any thread.
void on_call(std::uint32_t domain, std::uint32_t id, const cupti::CallData& data,
             const CallHooks& hooks) noexcept;

// Makes on_call pass over this thread's calls: the agent's own.
void ignore_calls_of_this_thread() noexcept;

}  // namespace warpline::agent
