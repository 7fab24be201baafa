// Counting in one context: its profiler, what it has counted, and the steps and ranges it is in.
//
// Everything here is called with the lock of counting held.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "counters/evaluator.h"
#include "counters/launch_filter.h"
#include "counters/metrics.h"
#include "counters/range_profiler.h"
#include "cupti/abi.h"
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
  bool is_measured = false;             // how many launches a step has is known
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
  std::uint32_t unwanted = 0;  // launches since the last that was wanted
  StepPasses steps;
  bool is_open = false;        // a range is
  std::uint32_t range_kernels = 0;
  std::int64_t range_from_ns = 0;

  CounterBatch& batch() noexcept { return batches[filling]; }
  bool is_started() const noexcept { return profiler != nullptr && profiler->is_started(); }
};

// Counting in this process.
struct Counting {
  bool is_begun = false;
  CounterConfig config;
  const Session* session = nullptr;
  cupti::Functions base{};
  cupti::CounterFunctions functions{};
  cupti::Subscriber subscriber = nullptr;
  std::unique_ptr<LaunchFilter> filter;
  std::unique_ptr<Evaluator> evaluator;
  std::unordered_map<void*, std::unique_ptr<ContextCounts>> contexts;
  std::vector<void*> captures;  // streams that are being captured
  std::uint32_t seen = 0;      // kernels launched
  std::uint32_t counted = 0;
  std::uint32_t graphs = 0;    // launched
  bool has_written_names = false;
  bool has_told = false;       // how counters are collected
  bool has_told_memory = false;
  bool is_over = false;        // all that was asked for is counted
  std::int64_t began_ns = 0;
  std::int64_t spent_ns = 0;
};


// Returns what is counted in the context of a call; begins it at the first.
ContextCounts& counts_of(Counting& c, const cupti::CallData& data);

// Notes that counters cannot be used, and why; a tab and what to do may follow the reason.
void tell_counters_refused(const std::string& reason);

// Programs the counters, unless they are. On failure the context is refused.
void start(Counting& c, ContextCounts& counts);

// Stops counting in a context before what must not be counted, and hands over what was. A step that
// is interrupted is no pass, for this cause; a range goes on.
void stop(Counting& c, ContextCounts& counts, const char* cause);
void stop_all(Counting& c, const char* cause);

// Stops the counters of a step without handing anything over.
void stop_step(Counting& c, ContextCounts& counts, const char* cause);

// Begins the range in which all is counted together, unless it has begun.
void open_range(Counting& c, ContextCounts& counts, std::int64_t from_ns);

// Recording has been turned off: ranges and steps end.
void end_windows(Counting& c);

// Ends what is counted in a context that is about to be destroyed.
void end_context(Counting& c, ContextCounts& counts);

// Writes the names of the metrics, once per process.
void write_metric_names(Counting& c, ThreadLog& log) noexcept;

}  // namespace warpline::agent
