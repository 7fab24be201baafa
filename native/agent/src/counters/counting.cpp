#include "counters/counting.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "counters/context_counts.h"
#include "counters/launch_call.h"
#include "counters/library.h"
#include "counters/processes.h"
#include "cupti/calls.h"
#include "cupti/detach.h"
#include "cupti/records.h"
#include "cupti/setup.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/process.h"
#include "session/thread_log.h"

namespace warpline::agent {
namespace {

constexpr std::uint32_t kMostCalls = 2048;  // ids of the driver's domain; CUDA 13 has 807
// Programming the counters takes as long as some fifty counted launches (H100, CUPTI 13.0): they stay
// programmed over fewer launches that are not wanted.
constexpr std::uint32_t kMostUnwanted = 40;
constexpr std::int64_t kSettleNs = 100'000'000;
constexpr std::int64_t kPatienceNs = 2'000'000'000;  // for who counts on a GPU
std::atomic<Counting*> g_counting{nullptr};  // of the session, while it counts
std::array<LaunchCall, kMostCalls> g_calls{};  // by id

// The launch that this thread is making, between its enter and exit.
struct ThreadLaunch {
  Counting* counting;  // null: none that matters
  GpuCounts* gpu;
  bool has_gate;       // else it is one in flight
  bool is_counted;     // as wanted
  bool is_ranged;      // it becomes a range, wanted or not
  std::uint32_t device;
  std::uint32_t seen;  // kernels before it
  void* context;
  std::int64_t enter_ns;
  std::uint64_t hash;
  Launch launch;
};
thread_local constinit ThreadLaunch t_launch{};

// ---- launches

bool is_recording(const Counting& c) noexcept {
  return c.session == g_session.load(std::memory_order_acquire) &&
         recording_state(*c.session).is_on;
}

// Waits for launches of other threads that have begun. Returns false if they take long.
bool settle(const GpuCounts& gpu) noexcept {
  for (const std::int64_t until = now_ns() + kSettleNs; gpu.in_flight.load() != 0;) {
    if (now_ns() > until) return false;
    usleep(10);
  }
  return true;
}

// Programs the counters for a launch, unless they are. Returns whether they are.
bool start_settled(Counting& c, ContextCounts& counts) {
  GpuCounts& gpu = *t_launch.gpu;
  gpu.is_programmed = true;
  if (!counts.is_refused && !counts.is_started() && !settle(gpu)) return false;
  start(c, gpu, counts);
  return !counts.is_refused;
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

bool is_capturing(Counting& c) noexcept {
  const Lock lock(c.shared);
  return !c.captures.empty();
}

bool is_filter_done(Counting& c) noexcept {
  const Lock lock(c.shared);
  return c.filter->is_done();
}

bool is_in_window(const Counting& c) noexcept {
  return c.windows.is_all() || c.windows.has(g_process->windows_begun.load());
}

// Whether the thread is in the NVTX ranges, and the process in the capture ranges, that are asked for.
bool is_in_ranges(const Counting& c) noexcept {
  if (!is_in_window(c)) return false;
  if (!c.config.ranges.is_on()) return true;
  nvtx::RangeFilter* filter = nvtx::RangeFilter::current();
  return filter != nullptr && filter->has_launch();
}

Choice choose(Counting& c, const Launch& launch, const cupti::CallData& data) {
  if (launch.mangled == nullptr || !is_recording(c)) return Choice::kSkip;
  LaunchFacts facts{launch.mangled,
                    {},
                    {},
                    data.context_id,
                    stream_of(c, launch, data.context),
                    t_launch.device,
                    launch.dynamic_shared_bytes,
                    is_in_ranges(c)};
  std::copy_n(launch.grid, 3, facts.grid);
  std::copy_n(launch.block, 3, facts.block);
  const Lock lock(c.shared);
  return c.captures.empty() ? c.filter->choose(facts, c.pace.burst()) : Choice::kSkip;
}

ContextCounts& counts_here(Counting& c, const cupti::CallData& data) {
  return counts_of(c, *t_launch.gpu, t_launch.device, data);
}

// Begins the range of a context with the first work in it. Returns the context, or null.
ContextCounts* enter_range(Counting& c, const cupti::CallData& data) {
  if (!is_recording(c) || is_capturing(c) || !is_in_window(c)) return nullptr;
  ContextCounts& counts = counts_here(c, data);
  open_range(c, *t_launch.gpu, counts, t_launch.enter_ns);
  return counts.is_open ? &counts : nullptr;
}

// Makes a launch one of a step that is a pass.
void enter_step_launch(Counting& c, ContextCounts& counts, const cupti::CallData& data) {
  StepPasses& steps = counts.steps;
  ++steps.at;
  if (steps.most == 0 || steps.fault != nullptr || counts.is_refused) return;
  const std::uint64_t hash = t_launch.hash;
  const bool is_first = steps.done == 0;
  if (!is_first && (steps.at > steps.launches.size() || steps.launches[steps.at - 1] != hash)) {
    return stop_step(c, counts, kOtherKernels);
  }
  Choice choice = Choice::kSkip;
  if (is_first) {
    steps.launches.push_back(hash);
    choice = choose(c, t_launch.launch, data);
  }
  if (choice == Choice::kExclude) return stop_step(c, counts, kExcluded);
  if (!start_settled(c, counts)) return stop_step(c, counts, kOtherThreads);
  t_launch.is_ranged = steps.at <= counts.profiler->most_ranges();
  t_launch.is_counted = t_launch.is_ranged && choice == Choice::kCount;
}

void enter_launch(Counting& c, const cupti::CallData& data) {
  t_launch.context = data.context;
  if (c.config.replay == CounterReplay::kRange) {
    if (ContextCounts* counts = enter_range(c, data)) ++counts->range_kernels;
    return;
  }
  if (c.config.replay == CounterReplay::kSteps) {
    if (is_recording(c) && !c.is_over && !is_capturing(c) && is_in_window(c)) {
      enter_step_launch(c, counts_here(c, data), data);
    }
    return;
  }
  ContextCounts* known = t_launch.gpu->find(data.context);
  const bool is_started = known != nullptr && known->is_started();
  const bool is_affordable = c.pace.can_afford(is_started, t_launch.enter_ns);
  const Choice choice = is_affordable ? choose(c, t_launch.launch, data) : Choice::kSkip;
  if (choice == Choice::kNever || choice == Choice::kExclude) c.unwanted.add(t_launch.hash, kForever);
  if (choice == Choice::kLater) c.unwanted.add(t_launch.hash, c.pace.burst());
  if (choice == Choice::kCount) {
    ContextCounts& counts = counts_here(c, data);
    counts.unwanted = 0;
    t_launch.is_ranged = t_launch.is_counted = start_settled(c, counts);
    if (counts.is_refused) stop_all(c, *t_launch.gpu, kOtherContext);
  } else if (!is_started) {
    stop_all(c, *t_launch.gpu, kOtherContext);  // what another context's counters are programmed for
  } else {
    const bool stays = choice != Choice::kExclude && is_affordable && !is_capturing(c) &&
                       !is_filter_done(c) && ++known->unwanted < kMostUnwanted;
    if (!stays) stop(c, *known, kExcluded);
    t_launch.is_ranged = stays;
  }
}

void write_launch(Counting& c, const ContextCounts& counts, const cupti::CallData& data,
                  std::uint32_t number) noexcept {
  const Launch& launch = t_launch.launch;
  LogLease log = definition_log();  // recording was on when it began
  if (!log) return;
  write_metric_names(c, *log);
  const FunctionFacts facts = facts_of(launch.function);
  const auto size = [](int value) { return static_cast<std::uint32_t>(value); };
  log->put(raw::CountedKernel{.flags = clock_flags(c, counts.device),
                              .name = write_kernel_name(*log, launch.mangled),
                              .start_ns = static_cast<std::uint64_t>(t_launch.enter_ns),
                              .end_ns = timestamp(),
                              .device = counts.device,
                              .context = data.context_id,
                              .stream = stream_of(c, launch, data.context),
                              .correlation = written_correlation(data.correlation),
                              .launch = number,
                              .seen = t_launch.seen,
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

bool has_failed(const cupti::CallData& data) noexcept {
  return data.status != nullptr && *static_cast<const int*>(data.status) != 0;
}

void leave_launch(Counting& c, const cupti::CallData& data) {
  if (!t_launch.is_ranged) return;
  ContextCounts* known = t_launch.gpu->find(t_launch.context);
  if (known == nullptr || known->is_refused) return;
  ContextCounts& counts = *known;
  if (!has_failed(data)) {
    std::uint32_t number = kUnwanted;
    if (t_launch.is_counted) {
      number = c.counted++;
      write_launch(c, counts, data, number);
      if (number == 0) c.pace.begin(t_launch.enter_ns, now_ns());
    }
    if (counts.replay != CounterReplay::kSteps || counts.steps.done == 0) {
      counts.batch().launches.push_back(number);
    }
  }
  if (counts.replay == CounterReplay::kSteps) return;
  const bool is_full = counts.batch().launches.size() >= counts.profiler->most_ranges();
  if (counts.replay == CounterReplay::kKernel || is_full || is_filter_done(c)) {
    stop(c, counts, nullptr);
  }
}

void* captured_stream(const cupti::CallData& data) noexcept {
  if (data.parameters == nullptr) return nullptr;
  return static_cast<const cupti::StreamParameters*>(data.parameters)->stream;
}

// Nothing is counted while a stream is captured, on any GPU: what programs counters may spoil that. Ranges
// end before it.
void enter_capture(Counting& c, const cupti::CallData& data) {
  {
    const Lock lock(c.shared);
    c.captures.push_back(captured_stream(data));
  }
  for (GpuCounts& gpu : c.gpus) {
    const TimedLock gate(gpu.gate, kPatienceNs);
    if (!gate) continue;
    stop_all(c, gpu, kGraph);
    close_ranges(c, gpu);
  }
}

void leave_capture(Counting& c, const cupti::CallData& data) {
  const Lock lock(c.shared);
  const auto found = std::find(c.captures.begin(), c.captures.end(), captured_stream(data));
  if (found != c.captures.end()) c.captures.erase(found);
}

// Lets the end of counting have a GPU's gate, which threads that launch all the time would not.
void make_way(const Counting& c, const GpuCounts& gpu) noexcept {
  for (const std::int64_t until = now_ns() + kPatienceNs; c.is_ending && !gpu.is_closed;) {
    if (now_ns() > until) return;
    usleep(50);
  }
}

bool is_chosen(const Counting& c, std::uint32_t device) noexcept {
  const auto& devices = c.config.devices;
  return devices.empty() || std::find(devices.begin(), devices.end(), device) != devices.end();
}

// Returns the GPU of a context; null if it is not known.
GpuCounts* gpu_of(Counting& c, void* context, std::uint32_t& device) noexcept {
  struct Known {
    const Counting* counting;
    void* context;
    std::uint32_t ended;
    std::uint32_t device;
  };
  static thread_local constinit Known known{};
  const std::uint32_t ended = c.contexts_ended.load();
  if (known.counting != &c || known.context != context || known.ended != ended) {
    if (c.functions.device_id(context, &device) != cupti::kSuccess) return nullptr;
    known = {&c, context, ended, device};
  }
  device = known.device;
  return device < c.gpus.size() ? &c.gpus[device] : nullptr;
}

// Whether a launch is outside the NVTX ranges that are asked for, and need not be looked at.
bool is_elsewhere(const Counting& c) noexcept {
  const bool is_looked_at = c.config.skip_before_match != 0;  // which counts launches everywhere
  return c.config.ranges.is_on() && !is_looked_at && !is_in_ranges(c);
}

// Lets a launch go that will not be counted, while no counters are programmed. Most launches are such
// where samples are taken.
bool passes_by(const Counting& c, GpuCounts& gpu, std::uint64_t hash) noexcept {
  const bool is_unwanted =
      c.pace.is_resting() || c.unwanted.has(hash, c.pace.burst()) || is_elsewhere(c);
  if (!is_unwanted || c.is_ending) return false;
  gpu.in_flight.fetch_add(1);
  if (!gpu.is_programmed) return true;
  gpu.in_flight.fetch_sub(1);
  return false;
}

// With the gate held: from now on its holder's launch is one in flight.
void release(GpuCounts& gpu) noexcept {
  gpu.is_programmed = gpu.is_any_started();
  gpu.in_flight.fetch_add(1);
  pthread_mutex_unlock(&gpu.gate);
}

// A launch begins: of a kernel, or of what is not counted, such as a graph. A thread that has the gate
// keeps it until the launch is made.
void enter(Counting& c, LaunchCall call, const cupti::CallData& data) noexcept {
  if (t_launch.counting != nullptr || data.parameters == nullptr) return;
  std::uint32_t device = 0;
  GpuCounts* gpu = gpu_of(c, data.context, device);
  if (gpu == nullptr) return;
  if (!is_chosen(c, device)) {
    if (call.role != Role::kUncountable) c.seen.fetch_add(1);
    return;
  }
  t_launch.gpu = gpu;
  t_launch.is_counted = t_launch.is_ranged = t_launch.has_gate = false;
  t_launch.device = device;
  if (call.role != Role::kUncountable) {
    t_launch.seen = c.seen.fetch_add(1);
    t_launch.launch = launch_of(call, data);
    t_launch.hash = hash_of(t_launch.launch);
    if (passes_by(c, *gpu, t_launch.hash)) {
      t_launch.counting = &c;
      return;
    }
  }
  make_way(c, *gpu);
  if (gpu->is_closed) return;
  pthread_mutex_lock(&gpu->gate);
  if (gpu->is_closed) {
    pthread_mutex_unlock(&gpu->gate);
    return;
  }
  t_launch.counting = &c;
  t_launch.has_gate = true;
  t_launch.enter_ns = now_ns();
  try {
    if (call.role != Role::kUncountable) {
      enter_launch(c, data);
    } else {
      if (c.config.replay == CounterReplay::kRange) enter_range(c, data);
      stop_all(c, *gpu, kGraph);
    }
  } catch (...) {
  }
  if (call.role == Role::kUncountable || t_launch.is_ranged) return;
  c.pace.spend(now_ns() - t_launch.enter_ns);
  t_launch.has_gate = false;
  release(*gpu);
}

// Once no launch will be chosen any more: clocks need not be locked any longer, and the program may be
// over. Without a gate.
void wind_up(Counting& c) noexcept {
  if (c.config.replay == CounterReplay::kSteps) return;  // further passes count the same launches
  const bool is_needed = c.config.ends_program || c.clocks->is_held();
  if (!is_needed || !is_filter_done(c) || c.has_wound_up.exchange(true)) return;
  for (GpuCounts& gpu : c.gpus) {
    try {
      const TimedLock gate(gpu.gate, kPatienceNs);
      if (!gate) continue;
      for (const auto& counts : gpu.contexts) disable(c, *counts);
      gpu.is_programmed = false;
    } catch (...) {
    }
  }
  c.clocks->release();
  if (!c.config.ends_program) return;
  c.evaluator->wait_for_all();
  stop_session(*c.session->control);
}

void leave(const cupti::CallData& data) noexcept {
  if (t_launch.counting == nullptr) return;
  Counting& c = *t_launch.counting;
  t_launch.counting = nullptr;
  if (!t_launch.has_gate) {
    t_launch.gpu->in_flight.fetch_sub(1);
    return;
  }
  try {
    leave_launch(c, data);
  } catch (...) {
  }
  if (t_launch.is_ranged) c.pace.spend(now_ns() - t_launch.enter_ns);
  t_launch.gpu->is_programmed = t_launch.gpu->is_any_started();
  pthread_mutex_unlock(&t_launch.gpu->gate);
  if (t_launch.is_counted) wind_up(c);
}

// Chooses the calls whose callbacks are needed, by name, and turns these on.
void turn_callbacks_on(const cupti::Functions& functions, cupti::Subscriber subscriber) {
  constexpr auto kDriver = static_cast<std::uint32_t>(cupti::Domain::kDriver);
  constexpr auto kResource = static_cast<std::uint32_t>(cupti::Domain::kResource);
  for (std::uint32_t id = 1; id < kMostCalls; ++id) {
    const char* name = nullptr;
    if (functions.get_callback_name(kDriver, id, &name) != cupti::kSuccess || name == nullptr) continue;
    g_calls[id] = launch_call(name);
    if (g_calls[id].role != Role::kNone) keep_driver_call_on(functions, subscriber, id);
  }
  functions.enable_callback(1, subscriber, kResource, cupti::kContextEnds);
}

// Says why counters of steps are missing.
void tell_steps(const Counting& c, const GpuCounts& gpu) {
  for (const auto& counts : gpu.contexts) {
    if (counts->replay != CounterReplay::kSteps || counts->is_refused || c.is_over) continue;
    note(raw::CudaNote::kNoCounters, "the program made too few steps: the metrics need " +
                                         std::to_string(counts->metrics->passes() + 1) +
                                         " in a row that launch the same kernels");
  }
}

// Prepares the choice of NVTX ranges and capture ranges. Returns false, and why, if that cannot be.
bool find_ranges(Counting& c, std::string& problem) {
  try {
    c.windows = nvtx::Instances(c.config.window_instances);
  } catch (const std::regex_error&) {
    problem = "invalid filter " + c.config.window_instances;
    return false;
  }
  if (!c.config.ranges.is_on()) return true;
  const nvtx::RangeFilter* filter = nvtx::RangeFilter::current();
  problem = filter == nullptr ? "no memory for filters" : filter->problem();
  return problem.empty();
}

// Says why no launch was chosen, if NVTX ranges are what was asked for.
void tell_not_chosen(const Counting& c) {
  if (c.counted != 0 || !c.config.ranges.is_on()) return;
  const nvtx::RangeFilter* filter = nvtx::RangeFilter::current();
  const std::string reason = filter == nullptr ? std::string() : filter->reason();
  if (!reason.empty()) note(raw::CudaNote::kNotChosen, reason);
}

}  // namespace

void begin_counting(const Session& session, const CuptiLibrary& library,
                    cupti::Subscriber subscriber) noexcept {
  if (!session.config.counters.is_on) return;
  try {
    auto made = std::make_unique<Counting>();
    made->config = session.config.counters;
    made->session = &session;
    made->base = library.functions;
    made->pace.configure(made->config.budget_ppm, made->config.burst, now_ns());
    const bool wants_clocks = made->config.clocks != Clocks::kNone;
    const bool is_controlled = wants_clocks || made->config.flushes_caches;
    if (const char* missing = load_counter_functions(library, wants_clocks, made->functions)) {
      const std::string version = wants_clocks ? "13.4" : "12.6";
      return tell_counters_refused(library.file + " has no " + missing + "\tuse CUPTI " + version + " or later");
    }
    if (is_controlled && library.version < cupti::kVersion13_4) {
      return tell_counters_refused(library.file + " cannot flush caches\tuse CUPTI 13.4 or later");
    }
    std::string problem;
    if (!is_counted_process(made->config.processes, problem)) {
      return note(raw::CudaNote::kNotChosen, problem);
    }
    made->clocks = std::make_unique<ClockLock>(made->base, made->functions, made->config.clocks);
    made->filter = LaunchFilter::make(made->config, problem);
    if (made->filter == nullptr) return tell_counters_refused(problem);
    if (!find_ranges(*made, problem)) return tell_counters_refused(problem);
    made->evaluator = std::make_unique<Evaluator>(made->functions);
    made->evaluator->start();
    turn_callbacks_on(made->base, subscriber);
    g_counting.store(made.release(), std::memory_order_release);
  } catch (...) {
  }
}

void end_counting(bool is_exit) noexcept {
  Counting* counting = g_counting.load(std::memory_order_acquire);
  if (counting == nullptr || counting->is_ending.exchange(true)) return;
  Counting& c = *counting;
  try {
    for (GpuCounts& gpu : c.gpus) {
      const TimedLock gate(gpu.gate, kPatienceNs);
      if (gate) {  // else a launch there may never end: the process must
        end_windows(c, gpu);
        tell_steps(c, gpu);
        stop_all(c, gpu, nullptr);
      }
      gpu.is_closed = true;
    }
    g_counting.store(nullptr, std::memory_order_release);
    end_clock_watches();
    c.evaluator->stop();
    tell_not_chosen(c);
    if (c.evaluator->mismatches() != 0) {
      note(raw::CudaNote::kCountersDoubt, "counters of some launches were lost: their order was not known");
    }
    for (GpuCounts& gpu : c.gpus) {
      const bool is_cleared = !is_exit || c.clocks->is_held();
      if (const TimedLock gate(gpu.gate, kPatienceNs); gate && is_cleared) gpu.contexts.clear();
    }
    c.clocks->release();
  } catch (...) {
  }
}

void switch_counting(bool is_on) noexcept {
  Counting* c = g_counting.load(std::memory_order_acquire);
  if (is_on || c == nullptr) return;
  for (GpuCounts& gpu : c->gpus) {
    try {
      if (const TimedLock gate(gpu.gate, kPatienceNs); gate) end_windows(*c, gpu);
    } catch (...) {
    }
  }
}

void tick_counting() noexcept {
  if (Counting* c = g_counting.load(std::memory_order_acquire)) c->pace.tick(now_ns());
}

void forget_context(void* context) noexcept {
  Counting* c = g_counting.load(std::memory_order_acquire);
  if (c == nullptr) return;
  c->contexts_ended.fetch_add(1);
  for (GpuCounts& gpu : c->gpus) {
    try {
      if (const TimedLock gate(gpu.gate, kPatienceNs); gate) end_context(*c, gpu, context);
    } catch (...) {
    }
  }
}

void count_call(std::uint32_t id, const cupti::CallData& data) noexcept {
  const LaunchCall call = id < kMostCalls ? g_calls[id] : LaunchCall{};
  const Role role = call.role;
  if (role == Role::kNone) return;
  const bool is_enter = data.site == cupti::CallSite::kEnter;
  if (!is_enter && role <= Role::kUncountable) return leave(data);
  Counting* c = g_counting.load(std::memory_order_acquire);
  if (c == nullptr) return;
  try {
    if (is_enter && role <= Role::kUncountable) {
      enter(*c, call, data);
    } else if (is_enter && role == Role::kCaptureBegin) {
      enter_capture(*c, data);
    } else if (!is_enter && (role != Role::kCaptureBegin || has_failed(data))) {
      leave_capture(*c, data);
    }
  } catch (...) {
  }
}

}  // namespace warpline::agent
