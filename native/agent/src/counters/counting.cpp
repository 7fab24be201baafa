#include "counters/counting.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "counters/evaluator.h"
#include "counters/launch_filter.h"
#include "counters/library.h"
#include "counters/metrics.h"
#include "counters/range_profiler.h"
#include "cupti/detach.h"
#include "cupti/records.h"
#include "cupti/setup.h"
#include "machine/cuda_driver.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent {
namespace {

constexpr std::uint32_t kMostCalls = 2048;  // ids of the driver's domain; CUDA 13 has 807
constexpr std::size_t kMostRanges = 256;    // of an image: so many launches are lost if it is killed
constexpr std::size_t kMostBytes = 32u << 20;  // of an image, if more than one range has room
constexpr std::size_t kMostStepBytes = 1u << 30;
// Programming the counters takes as long as some fifty counted launches (H100, CUPTI 13.0): they stay
// programmed over fewer launches that are not wanted.
constexpr std::uint32_t kMostUnwanted = 40;
constexpr std::int64_t kFirstBudgetNs = 500'000'000;  // for programs that are over soon
constexpr std::int64_t kBurstNs = 200'000'000;        // programming counters pays for no less
constexpr std::int64_t kEndPatienceNs = 2'000'000'000;
constexpr std::uint32_t kMostFaults = 5;  // steps in which passes do not fit, until it is given up

// Why a step is no pass of the one before.
constexpr char kOtherKernels[] = "their kernels differ";
constexpr char kExcluded[] = "they launch kernels that must not be serialized";
constexpr char kGraph[] = "they launch or capture CUDA graphs";
constexpr char kOtherContext[] = "they launch kernels in several contexts";

enum class Role : std::uint8_t { kNone, kLaunch, kLaunchEx, kUncountable, kCaptureBegin, kCaptureEnd };

struct NamedRole {
  std::string_view start;
  Role role;
};
// By how the name of a driver's call begins; the first that fits. What is uncountable is a launch of
// work that has no range of its own, or none that CUPTI gets right.
constexpr NamedRole kRoles[] = {
    {"cuLaunchKernelEx", Role::kLaunchEx},
    {"cuLaunchKernel", Role::kLaunch},
    {"cuLaunchCooperativeKernelMultiDevice", Role::kUncountable},
    {"cuLaunchCooperativeKernel", Role::kLaunch},
    {"cuLaunchHostFunc", Role::kNone},
    {"cuLaunch", Role::kUncountable},
    {"cuGraphLaunch", Role::kUncountable},
    {"cuStreamBeginCapture", Role::kCaptureBegin},
    {"cuStreamEndCapture", Role::kCaptureEnd},
};

Role role_of(std::string_view name) {
  for (const NamedRole& known : kRoles) {
    if (name.starts_with(known.start)) return known.role;
  }
  return Role::kNone;
}

struct Launch {
  const char* mangled = nullptr;
  void* function = nullptr;
  void* stream = nullptr;
  std::uint32_t grid[3] = {};
  std::uint32_t block[3] = {};
  std::uint32_t dynamic_shared_bytes = 0;
  bool is_per_thread = false;
};

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

// All guarded by g_counting where nothing else is said.
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
  std::uint32_t captures = 0;  // of streams, that are open
  std::uint32_t seen = 0;      // kernels launched
  std::uint32_t counted = 0;
  std::uint32_t graphs = 0;    // launched
  bool has_written_names = false;
  bool has_told = false;       // how counters are collected
  bool is_over = false;        // all that was asked for is counted
  std::int64_t began_ns = 0;
  std::int64_t spent_ns = 0;
};

Counting& counting() {
  static Counting* one = new Counting;  // callbacks may come until the very end
  return *one;
}

// Held from before a launch that matters until after it.
pthread_mutex_t g_counting = PTHREAD_MUTEX_INITIALIZER;
std::atomic<bool> g_is_on{false};
std::array<Role, kMostCalls> g_roles{};
std::array<bool, kMostCalls> g_is_per_thread{};

// The launch that this thread is making, between its enter and exit.
struct ThreadLaunch {
  bool is_held;     // g_counting is
  bool is_counted;  // as wanted
  bool is_ranged;   // it becomes a range, wanted or not
  void* context;
  std::int64_t enter_ns;
  Launch launch;
};
thread_local constinit ThreadLaunch t_launch{};

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

void tell_refused(const std::string& reason) { note(raw::CudaNote::kNoCounters, reason); }

void tell_how(Counting& c, const ContextCounts& counts, const std::string& unknown) {
  if (!unknown.empty()) {
    note(raw::CudaNote::kCountersDoubt, counts.metrics->chip() + " has no metric " + unknown);
  }
  if (c.has_told) return;
  c.has_told = true;
  const std::size_t passes = counts.metrics->passes();
  note(raw::CudaNote::kCounters,
       counts.metrics->chip() + ", " + std::to_string(counts.metrics->size()) + " metrics, " +
           std::to_string(passes) + (passes == 1 ? " pass" : " passes") + ", " +
           words_of(counts.replay));
}

// ---- profilers of contexts

void refuse(ContextCounts& counts, const std::string& reason) {
  counts.is_refused = true;
  counts.profiler.reset();
  tell_refused(reason);
}

std::size_t most_ranges(const ContextCounts& counts) noexcept {
  return counts.replay == CounterReplay::kSerial ? kMostRanges : 1;
}

void make_profiler(Counting& c, ContextCounts& counts, void* context, std::size_t ranges) {
  const bool is_whole = counts.replay == CounterReplay::kRange;
  const char* function = "";
  cupti::Result result = cupti::kSuccess;
  counts.profiler = RangeProfiler::make(
      c.functions, *counts.metrics, context,
      is_whole ? cupti::RangeKind::kPushed : cupti::RangeKind::kEachKernel,
      counts.replay == CounterReplay::kKernel ? cupti::ReplayKind::kKernel : cupti::ReplayKind::kUser,
      ranges, counts.replay == CounterReplay::kSteps ? kMostStepBytes : kMostBytes, function, result);
  if (counts.profiler == nullptr) refuse(counts, counters_refused(c.base, function, result));
}

void prepare(Counting& c, ContextCounts& counts, void* context) {
  if (c.functions.device_id(context, &counts.device) != cupti::kSuccess) {
    return refuse(counts, "the GPU of a CUDA context is unknown");
  }
  const auto& devices = c.config.devices;
  if (!devices.empty() && std::find(devices.begin(), devices.end(), counts.device) == devices.end()) {
    counts.is_refused = true;  // as asked
    return;
  }
  std::string unknown;
  std::string problem;
  counts.metrics = Metrics::make(c.base, c.functions, context, counts.device, c.config.metrics,
                                 unknown, problem);
  if (counts.metrics == nullptr) return refuse(counts, problem);
  const std::size_t passes = counts.metrics->passes();
  counts.replay = c.config.replay;
  if (counts.replay == CounterReplay::kAuto) {
    counts.replay = passes <= 1 ? CounterReplay::kSerial : CounterReplay::kKernel;
  }
  const bool is_one_pass =
      counts.replay == CounterReplay::kSerial || counts.replay == CounterReplay::kRange;
  if (passes > 1 && is_one_pass) {
    return refuse(counts, "the metrics need " + std::to_string(passes) +
                              " passes\tchoose fewer metrics, or kernel replay");
  }
  // The profiler of steps is made when it is known how many launches a step has.
  if (counts.replay != CounterReplay::kSteps) make_profiler(c, counts, context, most_ranges(counts));
  if (!counts.is_refused) tell_how(c, counts, unknown);
}

ContextCounts& counts_of(Counting& c, const cupti::CallData& data) {
  std::unique_ptr<ContextCounts>& counts = c.contexts[data.context];
  if (counts == nullptr) {
    counts = std::make_unique<ContextCounts>();
    counts->context = data.context;
    counts->id = data.context_id;
    prepare(c, *counts, data.context);
  }
  return *counts;
}

// Hands what was counted to the evaluator. While stopped.
void hand_over(Counting& c, ContextCounts& counts) {
  CounterBatch& batch = counts.batch();
  counts.has_image = false;
  if (batch.launches.empty()) return;
  if (counts.profiler->decode() == cupti::kSuccess) {
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
  const cupti::Result result = counts.profiler->stop();
  if (result != cupti::kSuccess) {
    refuse(counts, counters_refused(c.base, "cuptiRangeProfilerStop", result));
  }
  return result == cupti::kSuccess;
}

void write_names(Counting& c, ThreadLog& log) noexcept {
  if (c.has_written_names) return;
  c.has_written_names = true;
  for (std::uint32_t i = 0; i < c.config.metrics.size(); ++i) {
    log.define(raw::Kind::kCounterName, i, 0, c.config.metrics[i]);
  }
}

// Ends the range of a context in which all was counted together.
void close_range(Counting& c, ContextCounts& counts) {
  if (!counts.is_open) return;
  counts.is_open = false;
  const cupti::Result result = counts.profiler->pop();
  if (result != cupti::kSuccess) {
    return refuse(counts, counters_refused(c.base, "cuptiRangeProfilerPopRange", result));
  }
  if (!stop_profiler(c, counts)) return;
  const std::uint32_t number = c.counted++;
  counts.batch().launches.push_back(number);
  if (LogLease log = definition_log()) {  // recording has just ended
    write_names(c, *log);
    const std::string name = "range " + std::to_string(number);
    log->put(raw::CountedKernel{.flags = raw::CountedKernel::kIsRange,
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

// Ends the step of a context whose steps are passes.
void end_step(Counting& c, ContextCounts& counts) {
  StepPasses& steps = counts.steps;
  if (steps.at == 0) return;  // no kernel was launched in it
  if (!stop_profiler(c, counts)) return;
  if (!steps.is_measured) {
    steps.is_measured = true;
    make_profiler(c, counts, counts.context, steps.at);
    return steps.restart();
  }
  if (steps.fault == nullptr && steps.at != steps.launches.size()) steps.fault = kOtherKernels;
  if (steps.fault != nullptr) {
    counts.has_image = false;
    counts.batch().launches.clear();
    if (++steps.faults == kMostFaults) {
      return refuse(counts, std::string("steps cannot be passes: ") + steps.fault +
                                "\tuse kernel replay, or metrics that need one pass");
    }
    return steps.restart();
  }
  steps.at = 0;
  if (++steps.done < counts.metrics->passes()) return;
  hand_over(c, counts);
  steps.restart();
  c.is_over = true;
}

// Stops counting in a context before what must not be counted, and hands over what was. A step that
// is interrupted is no pass; a range goes on.
void stop(Counting& c, ContextCounts& counts, const char* cause) {
  if (counts.replay == CounterReplay::kRange) return;
  if (counts.replay == CounterReplay::kSteps) {
    if (counts.is_started()) counts.steps.fault = cause;
    stop_profiler(c, counts);
  } else if (counts.is_started() && stop_profiler(c, counts)) {
    hand_over(c, counts);
  }
}

// Counters of a GPU serve one context at a time.
void stop_all(Counting& c, const ContextCounts* but, const char* cause) {
  for (const auto& [context, counts] : c.contexts) {
    if (counts.get() != but) stop(c, *counts, cause);
  }
}

void start(Counting& c, ContextCounts& counts) {
  if (counts.is_refused || counts.profiler->is_started()) return;
  stop_all(c, &counts, kOtherContext);
  if (!counts.has_image) {
    CounterBatch& batch = counts.batch();
    c.evaluator->wait(batch);
    batch.launches.clear();
    if (!counts.profiler->clear(batch.image)) return refuse(counts, "no memory for counters");
    const cupti::Result result = counts.profiler->use(batch.image);
    if (result != cupti::kSuccess) {
      return refuse(counts, counters_refused(c.base, "cuptiRangeProfilerSetConfig", result));
    }
    counts.has_image = true;
  }
  const cupti::Result result = counts.profiler->start();
  if (result != cupti::kSuccess) {
    refuse(counts, counters_refused(c.base, "cuptiRangeProfilerStart", result));
  }
}

// ---- launches

bool is_recording(const Counting& c) noexcept {
  return c.session == g_session.load(std::memory_order_acquire) &&
         recording_state(*c.session).is_on;
}

std::int64_t unspent_ns(const Counting& c) noexcept {
  const std::int64_t run_ns = now_ns() - c.began_ns;
  const auto share = static_cast<double>(c.config.budget_ppm) * 1e-6;
  return kFirstBudgetNs + static_cast<std::int64_t>(share * static_cast<double>(run_ns)) - c.spent_ns;
}

// Whether the budget allows to count the next launch; to program the counters takes more of it.
bool can_afford(const Counting& c, bool is_started) noexcept {
  return c.config.budget_ppm == 0 || unspent_ns(c) > (is_started ? 0 : kBurstNs);
}

Launch launch_of(Role role, std::uint32_t id, const cupti::CallData& data) noexcept {
  Launch launch;
  launch.mangled = data.symbol;
  launch.is_per_thread = g_is_per_thread[id];
  const auto take = [&launch](const auto& shape) {
    std::copy_n(shape.grid, 3, launch.grid);
    std::copy_n(shape.block, 3, launch.block);
    launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    launch.stream = shape.stream;
  };
  if (role == Role::kLaunch) {
    const auto& parameters = *static_cast<const cupti::LaunchParameters*>(data.parameters);
    launch.function = parameters.function;
    take(parameters);
  } else {
    const auto& parameters = *static_cast<const cupti::LaunchExParameters*>(data.parameters);
    launch.function = parameters.function;
    if (parameters.config != nullptr) take(*parameters.config);
  }
  return launch;
}

// FNV-1a of what makes a launch the same in each step.
std::uint64_t hash_of(const Launch& launch) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (const char* at = launch.mangled; at != nullptr && *at != 0; ++at) {
    add(static_cast<unsigned char>(*at));
  }
  for (int i = 0; i < 3; ++i) add(std::uint64_t{launch.grid[i]} << 32 | launch.block[i]);
  return hash;
}

std::uint32_t stream_of(const Counting& c, const Launch& launch, void* context) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(launch.stream);
  const bool is_own = value == cupti::kPerThreadStream || (value == 0 && launch.is_per_thread);
  const bool has_handle = value != 0 && value != cupti::kLegacyStream && value != cupti::kPerThreadStream;
  std::uint32_t number = 0;
  if (c.base.stream_id == nullptr ||
      c.base.stream_id(has_handle ? nullptr : context, has_handle ? launch.stream : nullptr,
                       is_own ? 1 : 0, &number) != cupti::kSuccess) {
    return raw::kCudaNone;
  }
  return number;
}

Choice choose(Counting& c, const Launch& launch, const cupti::CallData& data) {
  if (launch.mangled == nullptr || !is_recording(c) || c.captures != 0) return Choice::kSkip;
  LaunchFacts facts{launch.mangled, {}, {}, data.context_id, stream_of(c, launch, data.context)};
  std::copy_n(launch.grid, 3, facts.grid);
  std::copy_n(launch.block, 3, facts.block);
  return c.filter->choose(facts);
}

// Begins the range of a context with the first work in it.
void open_range(Counting& c, const cupti::CallData& data) {
  if (!is_recording(c)) return;
  ContextCounts& counts = counts_of(c, data);
  if (counts.is_open || counts.is_refused) return;
  start(c, counts);
  if (counts.is_refused) return;
  const cupti::Result result = counts.profiler->push("range");
  if (result != cupti::kSuccess) {
    return refuse(counts, counters_refused(c.base, "cuptiRangeProfilerPushRange", result));
  }
  counts.is_open = true;
  counts.range_kernels = 0;
  counts.range_from_ns = t_launch.enter_ns;
}

// Makes a launch one of a step that is a pass.
void enter_step_launch(Counting& c, ContextCounts& counts, const cupti::CallData& data) {
  StepPasses& steps = counts.steps;
  ++steps.at;
  if (!steps.is_measured || steps.fault != nullptr || counts.is_refused) return;
  const std::uint64_t hash = hash_of(t_launch.launch);
  const bool is_first = steps.done == 0;
  if (!is_first && (steps.at > steps.launches.size() || steps.launches[steps.at - 1] != hash)) {
    steps.fault = kOtherKernels;
    stop_profiler(c, counts);
    return;
  }
  Choice choice = Choice::kSkip;
  if (is_first) {
    steps.launches.push_back(hash);
    choice = choose(c, t_launch.launch, data);
  }
  if (choice == Choice::kExclude) {
    stop(c, counts, kExcluded);
    steps.fault = kExcluded;
    return;
  }
  start(c, counts);
  t_launch.is_ranged = !counts.is_refused && steps.at <= counts.profiler->most_ranges();
  t_launch.is_counted = t_launch.is_ranged && choice == Choice::kCount;
}

void enter_launch(Counting& c, Role role, std::uint32_t id, const cupti::CallData& data) {
  ++c.seen;
  t_launch.launch = launch_of(role, id, data);
  t_launch.context = data.context;
  if (c.config.replay == CounterReplay::kRange) {
    open_range(c, data);
    const auto known = c.contexts.find(data.context);
    if (known != c.contexts.end() && known->second->is_open) ++known->second->range_kernels;
    return;
  }
  if (c.config.replay == CounterReplay::kSteps) {
    if (is_recording(c) && !c.is_over && c.captures == 0) {
      enter_step_launch(c, counts_of(c, data), data);
    }
    return;
  }
  const auto known = c.contexts.find(data.context);
  const bool is_started = known != c.contexts.end() && known->second->is_started();
  const bool is_affordable = can_afford(c, is_started);
  const Choice choice = is_affordable ? choose(c, t_launch.launch, data) : Choice::kSkip;
  if (choice == Choice::kCount) {
    ContextCounts& counts = counts_of(c, data);
    start(c, counts);
    counts.unwanted = 0;
    t_launch.is_ranged = t_launch.is_counted = !counts.is_refused;
  } else if (is_started) {
    ContextCounts& counts = *known->second;
    const bool stays = choice == Choice::kSkip && is_affordable && c.captures == 0 &&
                       !c.filter->is_done() && ++counts.unwanted < kMostUnwanted;
    if (!stays) stop(c, counts, kExcluded);
    t_launch.is_ranged = stays;
  }
}

// The attributes of a function that its launch does not tell.
struct FunctionFacts {
  int registers = 0;
  int static_shared_bytes = 0;
  int local_bytes = 0;
};

FunctionFacts facts_of(void* function) noexcept {
  constexpr int kSharedBytes = 1;
  constexpr int kLocalBytes = 3;
  constexpr int kRegisters = 4;
  const Driver driver;
  FunctionFacts facts;
  if (!driver.call("cuFuncGetAttribute", &facts.registers, kRegisters, function)) {
    // What is launched may be a CUkernel, of which each context has a function.
    void* of_context = nullptr;
    if (!driver.call("cuKernelGetFunction", &of_context, function)) return facts;
    function = of_context;
    driver.call("cuFuncGetAttribute", &facts.registers, kRegisters, function);
  }
  driver.call("cuFuncGetAttribute", &facts.static_shared_bytes, kSharedBytes, function);
  driver.call("cuFuncGetAttribute", &facts.local_bytes, kLocalBytes, function);
  return facts;
}

void write_launch(Counting& c, const ContextCounts& counts, const cupti::CallData& data,
                  std::uint32_t number) noexcept {
  const Launch& launch = t_launch.launch;
  LogLease log = recording_log();
  if (!log) return;
  write_names(c, *log);
  const FunctionFacts facts = facts_of(launch.function);
  const auto size = [](int value) { return static_cast<std::uint32_t>(value); };
  log->put(raw::CountedKernel{.name = write_kernel_name(*log, launch.mangled),
                              .start_ns = static_cast<std::uint64_t>(t_launch.enter_ns),
                              .end_ns = timestamp(),
                              .device = counts.device,
                              .context = data.context_id,
                              .stream = stream_of(c, launch, data.context),
                              .correlation = written_correlation(data.correlation),
                              .launch = number,
                              .seen = c.seen - 1,
                              .grid_x = launch.grid[0],
                              .grid_y = launch.grid[1],
                              .grid_z = launch.grid[2],
                              .block_x = launch.block[0],
                              .block_y = launch.block[1],
                              .block_z = launch.block[2],
                              .registers = size(facts.registers),
                              .static_shared_bytes = size(facts.static_shared_bytes),
                              .dynamic_shared_bytes = launch.dynamic_shared_bytes,
                              .local_bytes_per_thread = size(facts.local_bytes),
                              .passes = static_cast<std::uint32_t>(counts.metrics->passes())});
}

void leave_launch(Counting& c, const cupti::CallData& data) {
  if (!t_launch.is_ranged) return;
  const auto known = c.contexts.find(t_launch.context);
  if (known == c.contexts.end() || known->second->is_refused) return;
  ContextCounts& counts = *known->second;
  const bool has_failed = data.status != nullptr && *static_cast<const int*>(data.status) != 0;
  if (!has_failed) {
    std::uint32_t number = kUnwanted;
    if (t_launch.is_counted) {
      number = c.counted++;
      write_launch(c, counts, data, number);
    }
    if (counts.replay != CounterReplay::kSteps || counts.steps.done == 0) {
      counts.batch().launches.push_back(number);
    }
  }
  if (counts.replay == CounterReplay::kSteps) return;
  const bool is_full = counts.batch().launches.size() >= counts.profiler->most_ranges();
  if (counts.replay == CounterReplay::kKernel || is_full || c.filter->is_done()) {
    stop(c, counts, nullptr);
  }
}

void enter(Counting& c, Role role, std::uint32_t id, const cupti::CallData& data) {
  switch (role) {
    case Role::kLaunch:
    case Role::kLaunchEx:
      if (data.parameters != nullptr) enter_launch(c, role, id, data);
      break;
    case Role::kUncountable:
      ++c.graphs;
      if (c.config.replay == CounterReplay::kRange) open_range(c, data);
      stop_all(c, nullptr, kGraph);
      break;
    case Role::kCaptureBegin:
      ++c.captures;
      stop_all(c, nullptr, kGraph);
      break;
    case Role::kCaptureEnd:
    case Role::kNone: break;
  }
}

void leave(Counting& c, Role role, const cupti::CallData& data) {
  const bool has_failed = data.status != nullptr && *static_cast<const int*>(data.status) != 0;
  if (role == Role::kLaunch || role == Role::kLaunchEx) {
    leave_launch(c, data);
  } else if (c.captures != 0 &&
             (role == Role::kCaptureEnd || (role == Role::kCaptureBegin && has_failed))) {
    --c.captures;
  }
}

// Recording has been turned off.
void end_windows(Counting& c) {
  for (const auto& [context, counts] : c.contexts) {
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

}  // namespace

void begin_counting(const Session& session, const CuptiLibrary& library,
                    cupti::Subscriber subscriber) noexcept {
  if (!session.config.counters.is_on) return;
  try {
    const Lock lock(g_counting);
    Counting& c = counting();
    c.config = session.config.counters;
    c.session = &session;
    c.base = library.functions;
    c.subscriber = subscriber;
    c.began_ns = now_ns();
    if (const char* missing = load_counter_functions(library, c.functions)) {
      return tell_refused(library.file + " has no " + missing + "\tuse CUPTI 12.6 or later");
    }
    std::string problem;
    c.filter = LaunchFilter::make(c.config, problem);
    if (c.filter == nullptr) return tell_refused(problem);
    c.evaluator = std::make_unique<Evaluator>(c.functions);
    c.evaluator->start();
    constexpr auto kDriver = static_cast<std::uint32_t>(cupti::Domain::kDriver);
    for (std::uint32_t id = 1; id < kMostCalls; ++id) {
      const char* name = nullptr;
      if (c.base.get_callback_name(kDriver, id, &name) != cupti::kSuccess || name == nullptr) continue;
      g_roles[id] = role_of(name);
      g_is_per_thread[id] = std::string_view(name).ends_with("_ptsz");
      if (g_roles[id] != Role::kNone) c.base.enable_callback(1, subscriber, kDriver, id);
    }
    c.base.enable_callback(1, subscriber, static_cast<std::uint32_t>(cupti::Domain::kResource),
                           cupti::kContextEnds);
    c.is_begun = true;
    g_is_on.store(true, std::memory_order_release);
  } catch (...) {
  }
}

void end_counting(bool is_exit) noexcept {
  if (!g_is_on.exchange(false)) return;
  // A thread may be in a launch that never ends: the program's end must not wait for it.
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kEndPatienceNs / 1'000'000'000;
  Counting& c = counting();
  if (pthread_mutex_timedlock(&g_counting, &until) != 0) return;
  try {
    end_windows(c);
    for (const auto& [context, counts] : c.contexts) {
      if (counts->replay == CounterReplay::kSteps && !counts->is_refused && !c.is_over) {
        const auto wanted = std::to_string(counts->metrics->passes() + 1);
        note(raw::CudaNote::kNoCounters, "the program made too few steps: the metrics need " + wanted +
                                             " in a row that launch the same kernels");
      }
    }
    stop_all(c, nullptr, nullptr);
    c.evaluator->stop();
    if (c.evaluator->mismatches() != 0) {
      note(raw::CudaNote::kCountersDoubt, "counters of some launches could not be told apart");
    }
    if (!is_exit) c.contexts.clear();
  } catch (...) {
  }
  c.is_begun = false;
  pthread_mutex_unlock(&g_counting);
}

void switch_counting(bool is_on) noexcept {
  if (is_on || !g_is_on.load(std::memory_order_acquire)) return;
  const Lock lock(g_counting);
  try {
    end_windows(counting());
  } catch (...) {
  }
}

void forget_context(void* context) noexcept {
  if (!g_is_on.load(std::memory_order_acquire)) return;
  const Lock lock(g_counting);
  Counting& c = counting();
  const auto known = c.contexts.find(context);
  if (known == c.contexts.end()) return;
  try {
    close_range(c, *known->second);
    stop(c, *known->second, nullptr);
    for (const CounterBatch& batch : known->second->batches) c.evaluator->wait(batch);
  } catch (...) {
  }
  c.contexts.erase(known);
}

void count_call(std::uint32_t id, const cupti::CallData& data) noexcept {
  if (id >= kMostCalls || g_roles[id] == Role::kNone) return;
  const Role role = g_roles[id];
  Counting& c = counting();
  if (data.site == cupti::CallSite::kEnter) {
    if (t_launch.is_held || !g_is_on.load(std::memory_order_acquire)) return;
    pthread_mutex_lock(&g_counting);
    t_launch = {};
    t_launch.is_held = true;
    t_launch.enter_ns = now_ns();
    try {
      enter(c, role, id, data);
    } catch (...) {
    }
    const bool is_launch = role == Role::kLaunch || role == Role::kLaunchEx;
    if (is_launch && !t_launch.is_ranged) {
      c.spent_ns += now_ns() - t_launch.enter_ns;
      t_launch.is_held = false;
      pthread_mutex_unlock(&g_counting);
    }
  } else if (t_launch.is_held) {
    try {
      leave(c, role, data);
    } catch (...) {
    }
    if (t_launch.is_ranged) c.spent_ns += now_ns() - t_launch.enter_ns;
    t_launch.is_held = false;
    pthread_mutex_unlock(&g_counting);
  }
}

}  // namespace warpline::agent
