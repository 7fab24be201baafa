#include "counters/context_counts.h"

#include <algorithm>

#include "counters/library.h"
#include "cupti/records.h"
#include "cupti/setup.h"
#include "machine/cuda_driver.h"
#include "session/clock.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

constexpr std::size_t kMostRanges = 256;  // of an image: so many launches are lost if it is killed
constexpr std::size_t kMostBytes = 32u << 20;  // of an image, if more than one range has room
constexpr std::size_t kMostStepBytes = 1u << 30;
constexpr std::uint32_t kMostFaults = 5;  // steps in which passes do not fit, until it is given up

// ---- what is told

const char* words_of(CounterReplay replay) noexcept {
  switch (replay) {
    case CounterReplay::kSerial: return "launches are serialized";
    case CounterReplay::kSteps: return "each step is a pass, with launches serialized";
    case CounterReplay::kRange: return "ranges as a whole";
    case CounterReplay::kAuto:
    case CounterReplay::kKernel: break;
  }
  return "kernel replay";
}

void tell_how(Counting& c, const ContextCounts& counts, const std::string& unknown) {
  if (!unknown.empty()) {
    note(raw::CudaNote::kCountersDoubt,
         "this GPU (" + counts.metrics->chip() + ") does not offer " + unknown);
  }
  if (c.has_told.exchange(true)) return;
  const std::size_t passes = counts.metrics->passes();
  note(raw::CudaNote::kCounters,
       counts.metrics->chip() + ", " + std::to_string(counts.metrics->size()) + " metrics, " +
           std::to_string(passes) + (passes == 1 ? " pass" : " passes") + ", " +
           words_of(counts.replay));
}

// ---- profilers of contexts

void refuse(Counting& c, ContextCounts& counts, const std::string& reason) {
  counts.is_refused = true;
  counts.profiler.reset();
  if (c.clocks->is_held_by(counts.context)) c.clocks->release();
  tell_counters_refused(reason);
}

std::size_t most_ranges(const ContextCounts& counts) noexcept {
  if (counts.replay == CounterReplay::kSteps) return counts.steps.most;
  return counts.replay == CounterReplay::kSerial ? kMostRanges : 1;
}

void make_profiler(Counting& c, ContextCounts& counts, void* context, std::size_t ranges) {
  const bool is_whole = counts.replay == CounterReplay::kRange;
  const char* function = "";
  cupti::Result result = cupti::kSuccess;
  c.clocks->hold(context, counts.device);
  counts.profiler = RangeProfiler::make(
      c.functions, *counts.metrics, context,
      is_whole ? cupti::RangeKind::kPushed : cupti::RangeKind::kEachKernel,
      counts.replay == CounterReplay::kKernel ? cupti::ReplayKind::kKernel : cupti::ReplayKind::kUser,
      c.config.flushes_caches ? cupti::CacheMode::kAll : cupti::CacheMode::kNone,
      ranges, counts.replay == CounterReplay::kSteps ? kMostStepBytes : kMostBytes, function, result);
  if (counts.profiler == nullptr) refuse(c, counts, refusal_of(c.base, function, result));
}

void prepare(Counting& c, ContextCounts& counts, void* context) {
  std::string unknown;
  std::string problem;
  counts.metrics = Metrics::make(c.base, c.functions, context, counts.device, c.config.metrics,
                                 unknown, problem);
  if (counts.metrics == nullptr) return refuse(c, counts, problem);
  const std::size_t passes = counts.metrics->passes();
  counts.replay = c.config.replay;
  if (counts.replay == CounterReplay::kAuto) {
    // Caches are flushed before each pass, and one pass in series has many launches.
    const bool is_serial = passes <= 1 && !c.config.flushes_caches;
    counts.replay = is_serial ? CounterReplay::kSerial : CounterReplay::kKernel;
  }
  const bool is_one_pass =
      counts.replay == CounterReplay::kSerial || counts.replay == CounterReplay::kRange;
  if (passes > 1 && is_one_pass) {
    return refuse(c, counts, "the metrics need " + std::to_string(passes) +
                              " passes\tchoose fewer metrics, or kernel replay");
  }
  tell_how(c, counts, unknown);
}

// Steps that are passes may be far apart, and nothing is counted between them: the clock is read at both
// ends of each. With one pass there is nothing that might not fit together.
void begin_pass(ContextCounts& counts) noexcept {
  if (counts.metrics->passes() <= 1) return;
  if (counts.replay == CounterReplay::kSteps) {
    counts.clock.add(read_sm_clock_mhz(counts.device));
  } else {
    begin_clock_watch(counts.device);
  }
}

void end_pass(ContextCounts& counts) noexcept {
  if (counts.metrics->passes() <= 1) return;
  if (counts.replay == CounterReplay::kSteps) {
    counts.clock.add(read_sm_clock_mhz(counts.device));
  } else {
    counts.clock = end_clock_watch(counts.device);
  }
}

void write_clock(const ContextCounts& counts, const CounterBatch& batch) noexcept {
  if (!counts.clock.is_known()) return;
  LogLease log = definition_log();  // recording may be off by now
  if (!log) return;
  for (const std::uint32_t launch : batch.launches) {
    if (launch == kUnwanted) continue;
    log->put(raw::PassClock{.launch = launch,
                            .lowest_mhz = counts.clock.lowest_mhz,
                            .highest_mhz = counts.clock.highest_mhz});
  }
}

// Hands what was counted to the evaluator. While stopped.
void hand_over(Counting& c, ContextCounts& counts) {
  CounterBatch& batch = counts.batch();
  counts.has_image = false;
  if (batch.launches.empty()) return;
  if (counts.profiler->decode() == cupti::kSuccess) {
    write_clock(counts, batch);
    c.evaluator->take(batch, *counts.metrics);
    counts.filling = 1 - counts.filling;
  } else {
    batch.launches.clear();
    note(raw::CudaNote::kCountersDoubt, "counters of some launches could not be read");
  }
}

bool stop_profiler(Counting& c, ContextCounts& counts) {
  counts.unwanted = 0;
  if (!counts.is_started()) return true;
  end_pass(counts);
  const cupti::Result result = counts.profiler->stop();
  if (result != cupti::kSuccess) {
    refuse(c, counts, refusal_of(c.base, "cuptiRangeProfilerStop", result));
  }
  return result == cupti::kSuccess;
}

// Ends the range of a context in which all was counted together.
void close_range(Counting& c, ContextCounts& counts) {
  if (!counts.is_open) return;
  counts.is_open = false;
  const cupti::Result result = counts.profiler->pop();
  if (result != cupti::kSuccess) {
    return refuse(c, counts, refusal_of(c.base, "cuptiRangeProfilerPopRange", result));
  }
  if (!stop_profiler(c, counts)) return;
  const std::uint32_t number = c.counted++;
  counts.batch().launches.push_back(number);
  if (LogLease log = definition_log()) {  // recording has just ended
    write_metric_names(c, *log);
    const std::string name = "range " + std::to_string(number);
    std::uint8_t flags = clock_flags(c, counts.device);
    flags |= raw::CountedKernel::kIsRange;
    log->put(raw::CountedKernel{.flags = flags,
                                .name = write_kernel_name(*log, name.c_str()),
                                .start_ns = static_cast<std::uint64_t>(counts.range_from_ns),
                                .end_ns = timestamp(),
                                .device = counts.device,
                                .context = counts.id,
                                .stream = raw::kCudaNone,
                                .launch = number,
                                .seen = c.seen,
                                .passes = 1,
                                .kernels = counts.range_kernels});
  }
  hand_over(c, counts);
}

void refuse_steps(Counting& c, ContextCounts& counts, const char* fault) {
  refuse(c, counts, std::string("steps cannot be passes: ") + fault +
                     "\tuse kernel replay, or metrics that need one pass");
}

// Ends the step of a context whose steps are passes.
void end_step(Counting& c, ContextCounts& counts) {
  StepPasses& steps = counts.steps;
  if (steps.at == 0) return;  // no kernel was launched in it
  if (!stop_profiler(c, counts)) return;
  if (steps.at > steps.most) {  // the first of all may have begun in the middle
    counts.profiler.reset();
    counts.has_image = false;
    counts.batch().launches.clear();
    if (steps.most != 0 && ++steps.faults == kMostFaults) return refuse_steps(c, counts, kOtherKernels);
    steps.most = steps.at;  // the profiler is made again
    return steps.restart();
  }
  if (steps.fault == nullptr && steps.at != steps.launches.size()) steps.fault = kOtherKernels;
  if (steps.fault != nullptr) {
    counts.has_image = false;
    counts.batch().launches.clear();
    if (++steps.faults == kMostFaults) return refuse_steps(c, counts, steps.fault);
    return steps.restart();
  }
  steps.at = 0;
  if (++steps.done < counts.metrics->passes()) return;
  hand_over(c, counts);
  steps.restart();
  c.is_over = true;
}

// Kernel replay copies all memory of the program before each launch: to the GPU's own if there is room,
// else to the host, which takes seconds.
void warn_of_memory(Counting& c, const ContextCounts& counts) {
  if (counts.replay != CounterReplay::kKernel || c.has_told_memory.load()) return;
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  const Driver driver;
  if (!driver.call("cuMemGetInfo_v2", &free_bytes, &all_bytes)) return;
  const std::size_t used_bytes = all_bytes - free_bytes;
  if (used_bytes <= free_bytes || c.has_told_memory.exchange(true)) return;
  note(raw::CudaNote::kCountersDoubt,
       "kernel replay is slow because more than half of the GPU's memory is in use (" +
           std::to_string(used_bytes >> 30) + " GiB): it is copied to the host for each launch");
}

}  // namespace

void tell_counters_refused(const std::string& reason) { note(raw::CudaNote::kNoCounters, reason); }

std::uint8_t clock_flags(const Counting& c, std::uint32_t device) noexcept {
  if (!c.clocks->is_asked()) return 0;
  std::uint8_t flags = raw::CountedKernel::kIsClockAsked;
  if (c.clocks->are_fixed(device)) flags |= raw::CountedKernel::kHasFixedClocks;
  return flags;
}

void write_metric_names(Counting& c, ThreadLog& log) noexcept {
  if (c.has_written_names.exchange(true)) return;
  for (std::uint32_t i = 0; i < c.config.metrics.size(); ++i) {
    log.define(raw::Kind::kCounterName, i, 0, c.config.metrics[i]);
  }
}

ContextCounts* GpuCounts::find(const void* context) const noexcept {
  for (const auto& counts : contexts) {
    if (counts->context == context) return counts.get();
  }
  return nullptr;
}

bool GpuCounts::is_any_started() const noexcept {
  return std::any_of(contexts.begin(), contexts.end(),
                     [](const auto& counts) { return counts->is_started(); });
}

void disable(Counting& c, ContextCounts& counts) {
  close_range(c, counts);
  stop(c, counts, kOtherContext);
  counts.profiler.reset();
  counts.has_image = false;
}

ContextCounts& counts_of(Counting& c, GpuCounts& gpu, std::uint32_t device,
                         const cupti::CallData& data) {
  if (ContextCounts* counts = gpu.find(data.context)) return *counts;
  ContextCounts& counts = *gpu.contexts.emplace_back(std::make_unique<ContextCounts>());
  counts.context = data.context;
  counts.id = data.context_id;
  counts.device = device;
  prepare(c, counts, data.context);
  return counts;
}

void start(Counting& c, GpuCounts& gpu, ContextCounts& counts) {
  if (counts.is_refused || counts.is_started()) return;
  warn_of_memory(c, counts);
  // Counters of a GPU serve one context at a time, and are its until its profiler is disabled.
  for (const auto& other : gpu.contexts) {
    if (other.get() != &counts) disable(c, *other);
  }
  if (counts.profiler == nullptr) make_profiler(c, counts, counts.context, most_ranges(counts));
  if (counts.is_refused) return;
  if (!counts.has_image) {
    CounterBatch& batch = counts.batch();
    c.evaluator->wait(batch);
    batch.launches.clear();
    if (!counts.profiler->clear(batch.image)) return refuse(c, counts, "no memory for counters");
    const cupti::Result result = counts.profiler->use(batch.image);
    if (result != cupti::kSuccess) {
      return refuse(c, counts, refusal_of(c.base, "cuptiRangeProfilerSetConfig", result));
    }
    counts.has_image = true;
    counts.clock = {};
  }
  const cupti::Result result = counts.profiler->start();
  if (result != cupti::kSuccess) {
    return refuse(c, counts, refusal_of(c.base, "cuptiRangeProfilerStart", result));
  }
  begin_pass(counts);
}

void stop(Counting& c, ContextCounts& counts, const char* cause) {
  if (counts.replay == CounterReplay::kRange) return;
  if (counts.replay == CounterReplay::kSteps) {
    if (counts.is_started()) counts.steps.fault = cause;
    stop_profiler(c, counts);
  } else if (counts.is_started() && stop_profiler(c, counts)) {
    hand_over(c, counts);
  }
}

void stop_all(Counting& c, GpuCounts& gpu, const char* cause) {
  for (const auto& counts : gpu.contexts) stop(c, *counts, cause);
}

void stop_step(Counting& c, ContextCounts& counts, const char* cause) {
  counts.steps.fault = cause;
  stop_profiler(c, counts);
}

void open_range(Counting& c, GpuCounts& gpu, ContextCounts& counts, std::int64_t from_ns) {
  if (counts.is_open || counts.is_refused) return;
  start(c, gpu, counts);
  if (counts.is_refused) return;
  const cupti::Result result = counts.profiler->push("range");
  if (result != cupti::kSuccess) {
    return refuse(c, counts, refusal_of(c.base, "cuptiRangeProfilerPushRange", result));
  }
  counts.is_open = true;
  counts.range_kernels = 0;
  counts.range_from_ns = from_ns;
}

void close_ranges(Counting& c, GpuCounts& gpu) {
  for (const auto& counts : gpu.contexts) close_range(c, *counts);
}

void end_windows(Counting& c, GpuCounts& gpu) {
  for (const auto& counts : gpu.contexts) {
    if (counts->is_refused) continue;
    if (counts->replay == CounterReplay::kRange) {
      close_range(c, *counts);
    } else if (counts->replay == CounterReplay::kSteps) {
      end_step(c, *counts);
    } else {
      stop(c, *counts, nullptr);
    }
  }
}

void end_context(Counting& c, GpuCounts& gpu, const void* context) {
  ContextCounts* counts = gpu.find(context);
  if (counts == nullptr) return;
  close_range(c, *counts);
  stop(c, *counts, nullptr);
  if (c.clocks->is_held_by(context)) {
    for (const auto& each : gpu.contexts) disable(c, *each);
    c.clocks->release();
  }
  for (const CounterBatch& batch : counts->batches) c.evaluator->wait(batch);
  std::erase_if(gpu.contexts, [counts](const auto& each) { return each.get() == counts; });
}

}  // namespace warpline::agent
