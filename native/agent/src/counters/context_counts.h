// Counting in one context: its profiler, what it has counted, and the steps and ranges it is in.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "counters/clock_lock.h"
#include "counters/clock_watch.h"
#include "counters/evaluator.h"
#include "counters/launch_filter.h"
#include "counters/metrics.h"
#include "counters/pace.h"
#include "counters/range_profiler.h"
#include "cupti/abi.h"
#include "nvtx/range_filter.h"
#include "session/config.h"
#include "session/thread_log.h"

namespace warpline::agent {

struct Session;

// Why a step is no pass: causes of `stop`.
inline constexpr char kOtherKernels[] = "their kernels differ";
inline constexpr char kExcluded[] = "they launch kernels that must not be serialized";
inline constexpr char kGraph[] = "they launch or capture CUDA graphs";
inline constexpr char kOtherThreads[] = "other threads launch kernels meanwhile";
inline constexpr char kOtherContext[] = "they launch kernels in several contexts";

// The part of a context in steps that are passes: every step launches the same kernels.
struct StepPasses {
  std::size_t done = 0;                 // passes
  std::vector<std::uint64_t> launches;  // hashes of name and shape, of the first step
  std::size_t at = 0;                   // launches of this step
  std::size_t most = 0;                 // launches of a step so far; 0: none was measured
  const char* fault = nullptr;          // why this step is no pass
  std::uint32_t faults = 0;

  void restart() noexcept {
    done = at = 0;
    launches.clear();
    fault = nullptr;
  }
};

// Counting in one context.
struct ContextCounts {
  bool is_refused = false;
  void* context = nullptr;
  std::uint32_t device = 0;
  std::uint32_t id = 0;  // CUPTI's, of the context
  CounterReplay replay = CounterReplay::kKernel;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<RangeProfiler> profiler;
  std::array<CounterBatch, 2> batches;
  std::size_t filling = 0;  // of the batches
  bool has_image = false;   // the one that is filled is the profiler's
  ClockRange clock;            // during the passes over the launches of that one
  std::uint32_t unwanted = 0;  // launches since the last that was wanted
  StepPasses steps;
  bool is_open = false;        // a range is
  std::uint32_t range_kernels = 0;
  std::int64_t range_from_ns = 0;

  CounterBatch& batch() noexcept { return batches[filling]; }
  bool is_started() const noexcept { return profiler != nullptr && profiler->is_started(); }
};

// Counting on one GPU. What runs there is counted by one thread at a time, which holds `gate` from before
// a launch until after it: launches on other GPUs may be what it waits for.
struct GpuCounts {
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  // Launches that are being made without the gate. Counters are not programmed before these are over:
  // they would be counted, or repeated.
  std::atomic<std::uint32_t> in_flight{0};
  std::atomic<bool> is_programmed{false};  // counters are, or are about to be
  std::atomic<bool> is_closed{false};      // nothing is counted there any more
  std::vector<std::unique_ptr<ContextCounts>> contexts;

  // Returns null if nothing was counted there yet.
  ContextCounts* find(const void* context) const noexcept;
  bool is_any_started() const noexcept;
};

// Counting of a session in this process. Never freed: a thread may be in a launch.
struct Counting {
  static constexpr std::size_t kMostGpus = 64;

  CounterConfig config;
  const Session* session = nullptr;
  cupti::Functions base{};
  cupti::CounterFunctions functions{};
  std::unique_ptr<Evaluator> evaluator;
  std::unique_ptr<ClockLock> clocks;
  Pace pace;
  std::array<GpuCounts, kMostGpus> gpus;  // by CUDA's ordinal

  Unwanted unwanted;
  std::atomic<std::uint32_t> contexts_ended{0};  // a context's address may be another's after that
  std::atomic<std::uint32_t> seen{0};     // kernels launched
  std::atomic<std::uint32_t> counted{0};
  std::atomic<bool> has_wound_up{false};  // as the filter chooses no more launches
  std::atomic<bool> is_over{false};       // all that was asked for is counted
  std::atomic<bool> is_ending{false};     // launches wait until their GPU is closed
  std::atomic<bool> has_written_names{false};
  std::atomic<bool> has_told{false};      // how counters are collected
  std::atomic<bool> has_told_memory{false};

  // Held for moments, also with a gate.
  pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
  std::unique_ptr<LaunchFilter> filter;
  nvtx::Instances windows;  // capture ranges in which launches are counted
  std::vector<void*> captures;  // streams that are being captured
};

// All that follows is called with the gate of the GPU held.

// Returns what is counted in the context of a call; begins it at the first.
ContextCounts& counts_of(Counting& c, GpuCounts& gpu, std::uint32_t device,
                         const cupti::CallData& data);

// Programs the counters, unless they are. On failure the context is refused.
void start(Counting& c, GpuCounts& gpu, ContextCounts& counts);

// Stops counting in a context before what must not be counted, and hands over what was. A step that
// is interrupted is no pass, for this cause; a range goes on.
void stop(Counting& c, ContextCounts& counts, const char* cause);
void stop_all(Counting& c, GpuCounts& gpu, const char* cause);

// The same, and disables the context's profiler. It is made again when a launch is to be counted.
void disable(Counting& c, ContextCounts& counts);

// The flags of a record that say whether the GPU's clocks are locked.
std::uint8_t clock_flags(const Counting& c, std::uint32_t device) noexcept;

// Stops the counters of a step without handing anything over.
void stop_step(Counting& c, ContextCounts& counts, const char* cause);

// Begins the range in which all is counted together, unless it has begun.
void open_range(Counting& c, GpuCounts& gpu, ContextCounts& counts, std::int64_t from_ns);

// Ends the ranges that are open.
void close_ranges(Counting& c, GpuCounts& gpu);

// Recording has been turned off: ranges and steps end.
void end_windows(Counting& c, GpuCounts& gpu);

// Ends what is counted in a context that is about to be destroyed.
void end_context(Counting& c, GpuCounts& gpu, const void* context);

// Notes that counters cannot be used, and why; a tab and what to do may follow the reason, or a tab and
// CUPTI's result.
void tell_counters_refused(const std::string& reason);

// Writes the names of the metrics, once per process.
void write_metric_names(Counting& c, ThreadLog& log) noexcept;

}  // namespace warpline::agent
