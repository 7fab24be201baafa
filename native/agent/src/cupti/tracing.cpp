#include "cupti/tracing.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "counters/counting.h"
#include "cupti/buffers.h"
#include "cupti/calls.h"
#include "cupti/detach.h"
#include "cupti/library.h"
#include "cupti/other.h"
#include "cupti/records.h"
#include "cupti/setup.h"
#include "cupti/shared.h"
#include "cupti/start_up.h"
#include "cupti/use.h"
#include "machine/cuda_devices.h"
#include "pc_sampling/sampling.h"
#include "session/clock.h"
#include "session/collector.h"
#include "session/lock.h"
#include "session/own_thread.h"
#include "session/process.h"
#include "session/standing.h"
#include "session/thread_log.h"
#include "steps/launch_watch.h"
#include "steps/steps.h"
#include "warpline_agent.h"
#include "warpline_cuda.h"

#define WL_EXPORT extern "C" __attribute__((visibility("default")))

namespace warpline::agent {
namespace {

constexpr std::int64_t kTickNs = 20'000'000;         // how soon the launcher's switch is noticed
constexpr std::int64_t kPatienceNs = 10'000'000;     // else the watcher notices it at a tick
constexpr std::int64_t kExitPatienceNs = 2'000'000'000;  // for a recording that begins or ends at exit
constexpr std::int64_t kFirstFlushNs = 100'000'000;  // then twice as long each time, to flush_ms
constexpr std::int64_t kWaitFlushNs = 50'000'000;    // a call that waited asks for one no sooner
constexpr std::int64_t kSettledNs = 100'000'000;    // so long after a sample CUPTI may be detached
constexpr std::int64_t kDrainNs = 4'000'000'000;    // for work under way; below _DRAIN_S of the launchers
constexpr std::int64_t kLeaveNs = 1'000'000'000;    // the same, at the end of a recording that was not drained
constexpr long kLookNs = 2'000'000;                  // how often work under way is looked for
constexpr std::size_t kReadyBuffers = 2;             // as many threads may begin to launch at once
constexpr int kInjected = 1;                         // what the driver expects of an injection

// Everything about the tracing of this process. Guarded by g_lock where nothing else is said.
struct Tracing {
  CuptiLibrary library;  // opened once, kept
  RecordReading reading; // unchanged while buffers may come
  cupti::Subscriber subscriber = nullptr;
  Session* session = nullptr;
  bool is_begun = false;
  bool is_late = false;               // the program may have made graphs before
  bool is_drained = false;            // nothing is recorded any more
  bool is_recording = false;          // kinds are on
  bool records_calls = false;         // callbacks that are on, with the next
  WatchedCalls watched;
  bool is_watcher_running = false;
  std::atomic<bool> traces_graphs{false};  // that kind is on, also while nothing is recorded
  std::uint32_t collects = 0;         // of CudaCollects, when recording
  std::uint32_t told_failed = 0;      // kinds whose failure was told
  bool awaits_driver = false;         // unified memory is recorded once CUDA is initialized
  bool can_detach = false;
  std::int64_t detach_ns = 0;         // minimum expected pause for a detach; 0: never
  bool is_worn = false;               // kinds have been on since CUPTI was set up
  std::atomic<bool> is_detached{false};  // no CUPTI calls until it is attached again
  bool has_told_taken = false;        // that it could not be, as another tool had it
  std::int64_t sample_from_ns = 0;    // when recording began last,
  std::int64_t rest_from_ns = 0;      // and ended
  RecordingSpans spans;
};

// Never freed: callbacks may come until the very end of the process.
Tracing& tracing() {
  static Tracing* one = new Tracing;
  return *one;
}

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // begun, ended, switched on and off
std::atomic<std::int64_t> g_flushed_ns{0};  // when CUPTI was asked for its records last
// Held while the kind of whole graphs is turned on; may be taken with g_lock held.
pthread_mutex_t g_graphs_lock = PTHREAD_MUTEX_INITIALIZER;
BufferPool g_pool;
// The process that is being traced, or 0. A fork has it from its parent, may have g_lock locked for
// ever, and cannot use CUDA: whoever comes from outside looks here before anything else.
std::atomic<pid_t> g_traced{0};
std::atomic<bool> g_is_over{false};  // the program exits, and all is written down
std::atomic<bool> g_is_prepared{false};

// The watcher's own lock, so that it can be told to end while it waits.
pthread_mutex_t g_watch_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t g_watch_wake;
bool g_watch_runs = false;  // the condition is there
bool g_watch_ends = false;
bool g_flush_is_wanted = false;
pthread_t g_watcher;

constexpr std::uint32_t kCollectsFaults = raw::kCollectsCpuFaults | raw::kCollectsGpuFaults;

struct KindChoice {
  cupti::Kind kind;
  std::uint32_t collects;  // the bits that ask for it; 0: always
  const char* name;
};
constexpr KindChoice kKinds[] = {
    {cupti::Kind::kDevice, 0, "devices"},
    {cupti::Kind::kContext, 0, "contexts"},
    {cupti::Kind::kStream, 0, "streams"},
    {cupti::Kind::kConcurrentKernel, raw::kCollectsKernels, "kernels"},
    {cupti::Kind::kMemcpy, raw::kCollectsCopies, "copies"},
    {cupti::Kind::kMemcpyPeer, raw::kCollectsCopies, "peer copies"},
    {cupti::Kind::kUnifiedMemory, kCollectsFaults, "page faults and migrations of unified memory"},
    {cupti::Kind::kMemset, raw::kCollectsFills, "memsets"},
    {cupti::Kind::kGraphTrace, raw::kCollectsGraphs, "graphs"},
    {cupti::Kind::kSynchronization, raw::kCollectsWaits, "waits"},
    {cupti::Kind::kCudaEvent, raw::kCollectsEvents, "events"},
    {cupti::Kind::kMemory, raw::kCollectsMemory, "memory events"},
    {cupti::Kind::kMemoryPool, raw::kCollectsMemory, "memory pools"},
    {cupti::Kind::kOverhead, raw::kCollectsOverhead, "overhead"},
};

std::uint32_t wanted(const CudaConfig& config) noexcept {
  std::uint32_t bits = 0;
  const auto add = [&bits](bool is_wanted, std::uint32_t bit) {
    if (is_wanted) bits |= bit;
  };
  add(config.calls != CudaCalls::kNone, raw::kCollectsCalls);
  add(config.kernels, raw::kCollectsKernels);
  add(config.copies, raw::kCollectsCopies);
  add(config.fills, raw::kCollectsFills);
  add(config.kernels && !config.graph_nodes, raw::kCollectsGraphs);
  add(config.kernels && config.graph_nodes, raw::kCollectsGraphNodes);
  add(tells_targets(config), raw::kCollectsTargets);
  add(config.cupti_waits && config.waits, raw::kCollectsWaits);
  add(config.cupti_waits && config.events, raw::kCollectsEvents);
  add(config.memory, raw::kCollectsMemory);
  add(config.cpu_faults, raw::kCollectsCpuFaults);
  add(config.gpu_faults, raw::kCollectsGpuFaults);
  add(config.overhead, raw::kCollectsOverhead);
  return bits;
}

// CUPTI 13.0.0 may hang when kernels are turned off: they stay on, and are left out when read.
// A graph that was instantiated while graphs were not traced, and is launched while they are, crashes
// in the driver (CUPTI 13.0.1, driver 580): graphs are traced from before the first one on.
bool keeps_kind_on(const Tracing& t, cupti::Kind kind) noexcept {
  if (kind == cupti::Kind::kGraphTrace) return true;
  return kind == cupti::Kind::kConcurrentKernel && t.library.version == cupti::kVersion13_0_0;
}

// Graph-level tracing, copies and peer copies at the same time make a program that updates its graphs
// crash with CUDA_ERROR_ILLEGAL_ADDRESS or LAUNCH_FAILED (CUPTI 13.0.1, driver 580, H100; docs/harm.md).
// Without any one of them, it does not. And peer copies with any other kind of work make the driver hang in the launch
// of a graph that was made before, after 7,000 steps of a JAX program and more (the same; docs/attaching.md).
bool is_left_out(const Tracing& t, cupti::Kind kind) noexcept {
  return kind == cupti::Kind::kMemcpyPeer && (t.is_late || (t.collects & raw::kCollectsGraphs) != 0);
}

bool is_asked_for(const Tracing& t, const KindChoice& choice) noexcept {
  if (choice.collects != 0 && (t.collects & choice.collects) == 0) return false;
  return !is_left_out(t, choice.kind);
}

// ---- what CUPTI calls


void on_buffer_wanted(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *max_records = 0;  // as many as fit
  *buffer = g_pool.take(*bytes);
  if (*buffer == nullptr) *bytes = 0;
}

void on_buffer_done(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                    std::size_t valid_bytes) {
  if (buffer == nullptr) return;
  write_buffer(tracing().reading, context, stream, buffer, valid_bytes);
  g_pool.give_back(buffer, bytes);
}

void on_graph_node(const cupti::ResourceData& resource) noexcept {
  const auto* graph = static_cast<const cupti::GraphData*>(resource.descriptor);
  const cupti::Functions& functions = tracing().reading.functions;
  std::uint64_t node = 0;
  if (graph == nullptr || functions.graph_node_id == nullptr) return;
  if (functions.graph_node_id(graph->node, &node) != cupti::kSuccess) return;
  std::uint64_t original = 0;
  std::uint32_t graph_id = 0;
  if (graph->original_node != nullptr) functions.graph_node_id(graph->original_node, &original);
  if (functions.graph_id != nullptr && graph->graph != nullptr) {
    functions.graph_id(graph->graph, &graph_id);
  }
  LogLease log = recording_log();
  if (!log) return;
  log->put(raw::GraphNode{.node_type = graph->node_type,
                          .time_ns = timestamp(),
                          .graph_node_id = node,
                          .original_graph_node_id = original,
                          .graph = graph_id});
}

// Enables graph-level tracing, which adds a microsecond of overhead to every launch. Any thread.
cupti::Result trace_graphs(Tracing& t) noexcept {
  const Lock lock(g_graphs_lock);
  if (t.traces_graphs) return cupti::kSuccess;
  const cupti::Result result = t.library.functions.enable(cupti::Kind::kGraphTrace);
  t.traces_graphs = result == cupti::kSuccess;
  return result;
}

// Only a session with graph-level tracing keeps the callbacks for this enabled; others get them only
// while they record.
void on_graph_comes() noexcept {
  meet_graph();  // it may be captured still when CUPTI could be detached
  if ((tracing().collects & raw::kCollectsGraphs) != 0) trace_graphs(tracing());
}

bool is_traced() noexcept;

// Work that the program has waited for is complete, and can be saved before a crash: the watcher
// flushes it now. A flush here would delay a program with many launches by 3.5 ms each time (H100).
void on_wait_over(std::int64_t now) noexcept {
  if (now - g_flushed_ns.load(std::memory_order_relaxed) < kWaitFlushNs) return;
  g_flushed_ns.store(now, std::memory_order_relaxed);  // one wait of many is enough
  // In a fork, the lock may be held forever.
  if (!is_traced() || pthread_mutex_trylock(&g_watch_lock) != 0) return;
  if (g_watch_runs) {
    g_flush_is_wanted = true;
    pthread_cond_signal(&g_watch_wake);
  }
  pthread_mutex_unlock(&g_watch_lock);
}

constexpr CallHooks kCallHooks{follow_recording_state, on_graph_comes, on_wait_over};

void on_callback(void*, std::uint32_t domain, std::uint32_t id, const void* what) {
  if (what == nullptr) return;
  if (domain == static_cast<std::uint32_t>(cupti::Domain::kResource)) {
    const auto& resource = *static_cast<const cupti::ResourceData*>(what);
    sample_resource(id, resource);
    if (id == cupti::kGraphExecCreated) {
      meet_graph();
    } else if (id == cupti::kContextEnds) {
      forget_context(resource.context);
    } else if (id == cupti::kGraphNodeCreated || id == cupti::kGraphNodeCloned) {
      on_graph_node(resource);
    }
  } else {
    if (domain == static_cast<std::uint32_t>(cupti::Domain::kDriver)) {
      const auto& call = *static_cast<const cupti::CallData*>(what);
      if (sample_call(id, call)) return;
      count_call(id, call);
    }
    on_call(domain, id, *static_cast<const cupti::CallData*>(what), kCallHooks);
  }
}

constexpr CuptiHooks kHooks{on_callback, timestamp, on_buffer_wanted, on_buffer_done};

cupti::Result switch_resource(const Tracing& t, std::uint32_t id, bool is_on) noexcept {
  return t.library.functions.enable_callback(
      is_on ? 1 : 0, t.subscriber, static_cast<std::uint32_t>(cupti::Domain::kResource), id);
}

// ---- detached between samples; with g_lock held

void watch_graphs(const Tracing& t) noexcept {
  if (t.can_detach) switch_resource(t, cupti::kGraphExecCreated, true);
}

// Whether CUPTI may ever be detached; see cupti/detach.h. Tried with CUDA 13.0. Without calls no
// launch of a graph is seen.
bool can_detach(const Tracing& t) noexcept {
  const bool is_known = t.library.version > cupti::kVersion13_0_0 &&
                        t.library.version < cupti::kVersionAfterKnown;
  constexpr std::uint32_t kUntried = raw::kCollectsGraphs | kCollectsFaults;
  return is_known && t.library.functions.finalize != nullptr &&
         (t.collects & raw::kCollectsCalls) != 0 && (t.collects & kUntried) == 0;
}

// How long a rest must be likely to be; 0: no rest is.
std::int64_t shortest_detached_ns(const Tracing& t, const CudaConfig& config, bool is_late) noexcept {
  const Session& session = *t.session;
  const bool rests = read_switch(*session.control).mode() == raw::RangeMode::kSteps &&
                     !session.config.sample.by_calls;
  const bool is_wanted = rests && t.can_detach && !is_late;
  return is_wanted ? static_cast<std::int64_t>(config.detach_ms) * 1'000'000 : 0;
}

// Sets CUPTI up again if it is detached. Returns false, told once, if that cannot be now.
bool take_up(Tracing& t) noexcept {
  if (!t.is_detached.load(std::memory_order_relaxed)) return true;
  std::string other;
  const char* function = "";
  cupti::Result result = subscribe(t.library, kHooks, t.subscriber, other);
  if (result == cupti::kSuccess) {
    result = set_up(t.library, kHooks, function);
    if (result != cupti::kSuccess) t.library.functions.unsubscribe(t.subscriber);
  }
  if (result == cupti::kSuccess) {
    watch_graphs(t);
    expect_another_count();
    t.is_detached.store(false, std::memory_order_relaxed);
    return true;
  }
  if (!t.has_told_taken) {
    const std::string why = result == cupti::kOtherSubscriber
                                ? "another profiler was attached, " + other
                                : "CUPTI could not be attached, " + words_of(t.library.functions, result);
    note(raw::CudaNote::kKindFailed, "samples lack CUDA because " + why);
    t.has_told_taken = true;
  }
  return false;
}

// ---- on and off; with g_lock held

void tell_collecting(std::uint32_t collects) noexcept {
  if (LogLease log = definition_log()) {
    log->put(raw::Collecting{.kinds = collects, .time_ns = timestamp()});
  }
}

// Migrations, and the faults that are asked for.
cupti::Result enable_unified_memory(const Tracing& t) noexcept {
  const cupti::Functions& f = t.library.functions;
  if (f.choose_unified_memory == nullptr) return cupti::kNotSupported;
  const auto chosen = [](cupti::UnifiedMemory counter, bool is_on) {
    return cupti::UnifiedMemoryChoice{cupti::kScopeOfOneDevice, counter, 0, is_on ? 1U : 0U};
  };
  cupti::UnifiedMemoryChoice choices[] = {
      chosen(cupti::UnifiedMemory::kToDevice, true),
      chosen(cupti::UnifiedMemory::kToHost, true),
      chosen(cupti::UnifiedMemory::kBetweenDevices, true),
      chosen(cupti::UnifiedMemory::kCpuFault, (t.collects & raw::kCollectsCpuFaults) != 0),
      chosen(cupti::UnifiedMemory::kGpuFault, (t.collects & raw::kCollectsGpuFaults) != 0),
  };
  const cupti::Result result = f.choose_unified_memory(choices, std::size(choices));
  return result == cupti::kSuccess ? f.enable(cupti::Kind::kUnifiedMemory) : result;
}

cupti::Result enable_kind(Tracing& t, const KindChoice& choice) noexcept {
  const cupti::Functions& f = t.library.functions;
  if (choice.kind == cupti::Kind::kGraphTrace) return trace_graphs(t);
  if (choice.kind == cupti::Kind::kUnifiedMemory) return enable_unified_memory(t);
  // What exists already is listed again with devices, contexts and streams.
  const bool dumps = choice.collects == 0 && f.enable_and_dump != nullptr;
  return dumps ? f.enable_and_dump(choice.kind) : f.enable(choice.kind);
}

// Turns a kind on. One that cannot be is told once; returns the bits that are not collected then.
std::uint32_t enable_or_tell(Tracing& t, const KindChoice& choice) noexcept {
  const cupti::Result result = enable_kind(t, choice);
  if (choice.kind == cupti::Kind::kUnifiedMemory) {
    t.awaits_driver = result == cupti::kNotReady || result == cupti::kNotInitialized;
    if (t.awaits_driver) return 0;
  }
  if (result == cupti::kSuccess) return 0;
  const std::uint32_t bit = 1u << (&choice - kKinds);
  if ((t.told_failed & bit) == 0) {
    note(raw::CudaNote::kKindFailed,
         std::string(choice.name) + ": " + words_of(t.library.functions, result));
    t.told_failed |= bit;
  }
  // Peer copies have a kind of their own, but no bit.
  return choice.kind == cupti::Kind::kMemcpyPeer ? 0 : choice.collects;
}

// Turns the kinds on. Returns what is collected.
std::uint32_t enable_kinds(Tracing& t) noexcept {
  std::uint32_t collected = t.collects;
  for (const KindChoice& choice : kKinds) {
    if (is_asked_for(t, choice)) collected &= ~enable_or_tell(t, choice);
  }
  return collected;
}

// The agent is loaded by cuInit, within which CUPTI may refuse unified memory: it is asked again
// until CUDA is initialized, long before there is a context whose pages could migrate.
void take_up_unified_memory(Tracing& t) noexcept {
  if (!t.awaits_driver || !t.is_recording) return;
  const auto* choice = std::find_if(std::begin(kKinds), std::end(kKinds), [](const auto& each) {
    return each.kind == cupti::Kind::kUnifiedMemory;
  });
  const std::uint32_t missing = enable_or_tell(t, *choice);
  if (missing != 0) tell_collecting(t.collects & ~missing);
}

void disable_kinds(const Tracing& t) noexcept {
  for (const KindChoice& choice : kKinds) {
    if (!is_asked_for(t, choice)) continue;
    if (!keeps_kind_on(t, choice.kind)) t.library.functions.disable(choice.kind);
  }
}

void switch_graph_nodes(const Tracing& t, bool is_on) noexcept {
  if ((t.collects & raw::kCollectsGraphNodes) == 0) return;
  for (const std::uint32_t id : {cupti::kGraphNodeCreated, cupti::kGraphNodeCloned}) {
    switch_resource(t, id, is_on);
  }
}

void set_recording(Tracing& t, bool is_on) noexcept {
  if (t.is_recording == is_on || (is_on && !take_up(t))) return;
  t.is_recording = is_on;
  (is_on ? t.sample_from_ns : t.rest_from_ns) = now_ns();
  if (is_on) {
    t.is_worn = true;
    t.spans.begin(timestamp());
    tell_collecting(enable_kinds(t));
  } else {
    disable_kinds(t);
    t.spans.end(timestamp());
    tell_collecting(0);
  }
  switch_graph_nodes(t, is_on);
  switch_counting(is_on);
}

// Makes the callbacks those of what is recorded and of what is watched.
void follow_calls(Tracing& t) noexcept {
  const bool records = t.is_recording && (t.collects & raw::kCollectsCalls) != 0;
  const WatchedCalls watched = watched_calls();
  if ((records == t.records_calls && watched == t.watched) || !take_up(t)) return;
  t.records_calls = records;
  t.watched = watched;
  switch_calls(t.library.functions, t.subscriber, records, watched);
}

bool is_wanted_now(const Session* session) noexcept {
  return session != nullptr && session == g_session.load(std::memory_order_acquire) &&
         recording_state(*session).is_on;
}

bool is_traced() noexcept {
  const pid_t traced = g_traced.load(std::memory_order_acquire);
  return traced != 0 && traced == getpid();
}

bool is_fork_of_traced() noexcept {
  const pid_t traced = g_traced.load(std::memory_order_acquire);
  return traced != 0 && traced != getpid();
}

// ---- flushing

// Takes from CUPTI what is complete and writes it down.
void flush(std::uint32_t flags) noexcept {
  if (tracing().is_detached.load(std::memory_order_relaxed)) return;
  const CuptiUse use;
  g_flushed_ns.store(now_ns(), std::memory_order_relaxed);
  write_clock(tracing().library.functions, false);
  tracing().library.functions.flush_all(flags);
  const Config& config = tracing().session->config;
  write_new_devices(config.counters.is_on || config.pc_sampling.is_on());
}

timespec in_ns(std::int64_t time) noexcept {
  return {static_cast<time_t>(time / 1'000'000'000), static_cast<long>(time % 1'000'000'000)};
}

enum class Woken { kByTick, kToFlush, kToEnd };

// Waits for a tick, or for what comes before it.
Woken wait_a_tick() noexcept {
  const timespec until = in_ns(now_ns() + kTickNs);
  const Lock lock(g_watch_lock);
  while (!g_watch_ends && !g_flush_is_wanted) {
    if (pthread_cond_timedwait(&g_watch_wake, &g_watch_lock, &until) == ETIMEDOUT) break;
  }
  if (g_watch_ends) return Woken::kToEnd;
  const bool is_to_flush = g_flush_is_wanted;
  g_flush_is_wanted = false;
  return is_to_flush ? Woken::kToFlush : Woken::kByTick;
}

void tell_drain(const Tracing& t, raw::DrainState state) noexcept {
  agent::tell_drain(*t.session->control, g_process->slot, state);
}

// With all kinds off: returns once CUPTI has handed over what is under way on the device. The device is not waited for:
// cuCtxSynchronize invalidates a capture of a graph that any thread has begun, in all modes of capture (CUDA 13.0).
void settle(std::int64_t patience_ns) noexcept {
  const std::int64_t until_ns = now_ns() + patience_ns;
  while (true) {
    flush(0);
    if (g_pool.lent() == 0) return;
    if (now_ns() >= until_ns || g_is_over.load(std::memory_order_acquire)) return;
    const timespec a_while{0, kLookNs};
    nanosleep(&a_while, nullptr);
  }
}

// Ends recording, and brings all that was recorded into the logs.
void drain(Tracing& t) noexcept {
  {
    const Lock lock(g_lock);
    t.is_drained = true;
    set_recording(t, false);
    follow_calls(t);
  }
  // Graphs go on being traced, see keeps_kind_on: there may always be one under way.
  settle(t.traces_graphs ? kLeaveNs : kDrainNs);
  flush(cupti::kFlushForced);
  flush_sampling();
  tell_drain(t, raw::DrainState::kDrained);
}

// Whether this is the time for it. With g_lock held.
bool is_detach_due(const Tracing& t) noexcept {
  if (t.detach_ns == 0 || !t.is_worn || t.is_recording || has_met_graph()) return false;
  if (t.records_calls || t.watched != WatchedCalls{}) return false;
  if (now_ns() - t.rest_from_ns < kSettledNs) return false;
  return likely_rest_ns(t.rest_from_ns - t.sample_from_ns) >= t.detach_ns;
}

// Leaves the process as if CUPTI had never been there. A subscriber alone, with nothing turned on,
// costs a launch 400 instructions, and so does any call of CUPTI's after this. With g_lock held; all
// that was recorded is written down.
void detach(Tracing& t) noexcept {
  t.library.functions.unsubscribe(t.subscriber);
  t.is_detached.store(true, std::memory_order_relaxed);
  t.library.functions.finalize();
  t.is_worn = false;
}

// Ends what there is of CUPTI. The program may go on, and be recorded again: CUPTI is not finalized. Where it is, and
// then attached anew by other threads than those that launch, the heap is damaged after a few rounds (PyTorch
// training, CUPTI 13.0.1, driver 580, H100), however long is waited before and also at the end of a call.
void leave(const Tracing& t) noexcept {
  if (!t.is_detached.load(std::memory_order_relaxed)) t.library.functions.unsubscribe(t.subscriber);
}

// ---- the watcher

// What is on the device from the sample ends first: CUPTI must not be detached from under it.
void detach_if_due() noexcept {
  {
    const Lock lock(g_lock);
    if (!is_detach_due(tracing())) return;
  }
  flush(0);
  if (g_pool.lent() != 0) return;
  const Lock lock(g_lock);
  if (is_detach_due(tracing())) detach(tracing());
}

void follow_driver() noexcept {
  const Lock lock(g_lock);
  take_up_unified_memory(tracing());
}

// CUPTI's own periodic flush returns full buffers only; a killed program would lose the rest.
void* watch(void* flush_ns_pointer) {
  const auto longest = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(flush_ns_pointer));
  pthread_setname_np(pthread_self(), "warpline-cuda");
  ignore_calls_of_this_thread();
  std::int64_t period = std::min(kFirstFlushNs, longest);
  std::int64_t next_flush = now_ns() + period;
  bool is_drained = false;
  for (Woken woken; (woken = wait_a_tick()) != Woken::kToEnd;) {
    const CuptiUse use;
    if (woken == Woken::kToFlush) {
      // Where CUPTI is shared this would hand over the other's buffers, too.
      if (!tracing().library.is_shared) flush(0);
      continue;
    }
    tick_launch_watch();
    tick_counting();
    tick_sampling();
    follow_recording_state();
    follow_driver();
    g_pool.keep_ready(kReadyBuffers);
    detach_if_due();
    if (!is_drained && is_drain_wanted(*tracing().session->control)) {
      is_drained = true;
      drain(tracing());
    }
    if (now_ns() < next_flush) continue;
    flush(0);
    period = std::min(period * 2, longest);
    next_flush = now_ns() + period;
  }
  return nullptr;
}

bool start_watcher(std::uint64_t flush_ms) noexcept {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&g_watch_wake, &attributes);
  pthread_condattr_destroy(&attributes);
  g_watch_ends = g_flush_is_wanted = false;
  auto* argument = reinterpret_cast<void*>(static_cast<std::intptr_t>(flush_ms * 1'000'000));
  const bool is_started = start_own_thread(g_watcher, watch, argument);
  {
    const Lock lock(g_watch_lock);
    g_watch_runs = is_started;
  }
  return is_started;
}

void stop_watcher() noexcept {
  {
    const Lock lock(g_watch_lock);
    g_watch_runs = false;
    g_watch_ends = true;
    pthread_cond_signal(&g_watch_wake);
  }
  pthread_join(g_watcher, nullptr);
  pthread_cond_destroy(&g_watch_wake);
}

// ---- beginning and ending

// Stops the watcher and waits for it. Without g_lock, which it takes itself.
void end_watching() noexcept {
  bool runs = false;
  {
    const Lock lock(g_lock);
    runs = tracing().is_watcher_running;
    tracing().is_watcher_running = false;
  }
  if (runs) stop_watcher();
}

// Runs before the handlers that CUDA has registered earlier. Nothing is turned off: other handlers
// may still use CUDA, and this one must not wait for them. When it returns no thread of ours may call
// CUPTI, which reads what those handlers free: a thread that begins or ends a recording just now gets
// some time for it, and none begins or ends one later.
void end_at_exit() {
  if (is_fork_of_traced() || g_is_over.load(std::memory_order_acquire)) return;
  const bool is_locked = lock_in_time(g_lock, kExitPatienceNs);
  g_is_over.store(true, std::memory_order_release);
  if (is_locked) pthread_mutex_unlock(&g_lock);
  if (!is_traced()) return;
  end_watching();
  end_counting(true);
  end_sampling(true);
  flush(cupti::kFlushForced);
  tell_drain(tracing(), raw::DrainState::kDrained);
}

// The last that is registered runs first, and is the one that acts.
void end_tracing_at_exit() { static_cast<void>(std::atexit(end_at_exit)); }

bool is_traced_for(const Session* session) noexcept {
  const Lock lock(g_lock);
  return tracing().session == session;
}

// What is recorded of CUDA in a session. Where launches are counted they run one by one: their times
// say nothing, and are not recorded.
CudaConfig cuda_config(const Session& session) {
  CudaConfig config = session.config.cuda;
  if (session.config.counters.is_on) {
    config.calls = CudaCalls::kNone;
    config.kernels = config.copies = config.fills = config.waits = config.events = false;
    config.memory = config.overhead = config.cpu_faults = config.gpu_faults = false;
  }
  // Turned off again, CUPTI's kind of waits goes on taking 1.5 us per launch (13.0.1, H200); the
  // other kinds take nothing then.
  if (read_switch(*session.control).mode() == raw::RangeMode::kSteps) config.cupti_waits = false;
  return config;
}

// Opens CUPTI, once. Returns whether there is one.
bool have_library(Tracing& t, const CudaConfig& config) {
  if (!t.library) {
    std::string problem;
    t.library = open_cupti(config.library_paths, problem);
    if (!t.library) {
      note(raw::CudaNote::kUnavailable, problem);
      return false;
    }
  }
  choose_calls(t.library.functions, config);
  return true;
}

// The level of graph tracing is fixed before a process creates its first graph: see keeps_kind_on.
// A process that initialized CUDA earlier may already have graphs.
void settle_graph_level(const Tracing& t, CudaConfig& config, bool is_late) {
  if (!config.kernels) return;
  if (t.traces_graphs && config.graph_nodes) {
    config.graph_nodes = false;
    note(raw::CudaNote::kDoubt,
         "CUDA graphs are traced at graph level, as in an earlier recording of this process");
  } else if (!t.traces_graphs && is_late && !config.graph_nodes) {
    config.graph_nodes = true;
    note(raw::CudaNote::kDoubt,
         "CUDA graphs are traced at node level, because CUDA was initialized before profiling started");
  }
}

// See is_left_out.
void tell_left_out(const CudaConfig& config, bool is_late) {
  if (!is_late || !config.copies || active_devices() < 2) return;
  note(raw::CudaNote::kDoubt,
       "copies between GPUs are not recorded, because CUDA was initialized before profiling started");
}

// Graph level or node level is one setting for all profilers that share CUPTI, made by the first.
void share_graphs(const Tracing& t, CudaConfig& config, bool is_late, const std::string& other) {
  const bool are_whole = are_graphs_whole(t.library, t.subscriber);
  std::string differs;
  if (config.kernels && are_whole && is_late) {
    note(raw::CudaNote::kDoubt, "not work in CUDA graphs, which " + other +
                                    " traces at graph level: start profiling before CUDA is initialized");
  } else if (config.kernels && are_whole == config.graph_nodes) {
    config.graph_nodes = !are_whole;
    differs = are_whole ? ", which traces CUDA graphs at graph level"
                        : ", which traces CUDA graphs at node level";
  }
  note(raw::CudaNote::kShared, other + differs);
}

int begin(Tracing& t, Session& session, bool is_late) {
  CudaConfig config = cuda_config(session);
  settle_graph_level(t, config, is_late);
  if (!have_library(t, config)) return ENOTSUP;
  std::string other;
  cupti::Result result = subscribe(t.library, kHooks, t.subscriber, other);
  if (result == cupti::kOtherSubscriber) {
    result = subscribe_beside(t.library, kHooks, t.subscriber, other);
  }
  if (result != cupti::kSuccess) {
    tell_subscribe_failed(t.library, result, other);
    return ENOTSUP;
  }
  g_is_prepared.store(true);
  tell_library(t.library);
  tell_left_out(config, is_late);
  if (t.library.is_shared) share_graphs(t, config, is_late, name_of_other(other));
  t.session = &session;
  t.is_late = is_late;
  t.is_drained = false;
  t.collects = wanted(config);
  t.told_failed = 0;
  const bool filters_kernels = keeps_kind_on(t, cupti::Kind::kConcurrentKernel);
  // Where calls are recorded, a graph without one is left out when the session is finished: that
  // tells a late graph of the recording from an early one of the rest.
  const bool filters_graphs = (t.collects & raw::kCollectsCalls) == 0;
  t.reading = {t.library.functions, t.library.version, filters_kernels ? &t.spans : nullptr,
               filters_graphs ? &t.spans : nullptr};
  g_pool.configure(config.buffer_bytes, config.max_buffers);
  g_pool.keep_ready(kReadyBuffers);
  forget_written();
  const char* function = "";
  result = set_up(t.library, kHooks, function);
  if (result != cupti::kSuccess) {
    note(raw::CudaNote::kUnavailable,
         std::string(function) + ": " + words_of(t.library.functions, result));
    t.library.functions.unsubscribe(t.subscriber);
    return ENOTSUP;
  }
  static bool has_registered = false;
  const bool has_begun_before = std::exchange(has_registered, true);
  if (!has_begun_before) end_tracing_at_exit();  // the program may exit just now
  write_clock(t.library.functions, true);
  t.can_detach = can_detach(t);
  t.detach_ns = shortest_detached_ns(t, config, is_late);
  t.is_worn = t.has_told_taken = false;
  t.is_detached.store(false, std::memory_order_relaxed);
  watch_graphs(t);
  t.is_begun = true;
  g_traced.store(getpid(), std::memory_order_release);
  keep_calls_on(t.library.functions, t.subscriber, profiler_calls_bound_ranges(session),
                (t.collects & raw::kCollectsGraphs) != 0);
  begin_launch_watch(session);
  begin_counting(session, t.library, t.subscriber);
  set_recording(t, is_wanted_now(&session));
  t.records_calls = false;
  t.watched = {};
  follow_calls(t);
  begin_sampling(session, t.library, t.subscriber, is_late);  // no kind can be turned on after it
  t.is_watcher_running = start_watcher(config.flush_ms);
  if (t.is_watcher_running) tell_drain(t, raw::DrainState::kHolding);
  // Again, now that CUPTI may have registered its own.
  if (!has_begun_before) end_tracing_at_exit();
  return 0;
}

}  // namespace

int begin_cuda_tracing(bool is_late) noexcept {
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return ENOTCONN;
  if (!session->config.cuda.is_on || is_fork_of_traced()) return ENOTSUP;
  try {
    if (is_traced() && !is_traced_for(session)) end_cuda_tracing();
    const CuptiUse use;
    const Lock lock(g_lock);
    Tracing& t = tracing();
    if (g_is_over.load(std::memory_order_acquire)) return ENOTSUP;
    return t.is_begun ? 0 : begin(t, *session, is_late);
  } catch (...) {
    return ENOMEM;
  }
}

void prepare_cuda_tracing(const std::string& folder) noexcept {
  if (folder.empty()) return;
  try {
    Config config;
    if (read_config(folder + "/agent.conf", config) != 0 || !config.cuda.is_on) return;
    const CuptiUse use;
    const Lock lock(g_lock);
    Tracing& t = tracing();
    std::string other;
    if (t.library || !have_library(t, config.cuda)) return;
    if (subscribe(t.library, kHooks, t.subscriber, other) != cupti::kSuccess) return;
    t.library.functions.unsubscribe(t.subscriber);
    g_is_prepared.store(true);
  } catch (...) {  // out of memory: tracing begins as in a program that is attached to
  }
}

bool is_cuda_prepared() noexcept { return g_is_prepared.load(); }

void end_cuda_tracing() noexcept {
  if (!is_traced() || g_is_over.load(std::memory_order_acquire)) return;
  end_watching();
  end_counting(false);
  end_sampling(false);
  const CuptiUse use;
  const Lock lock(g_lock);
  Tracing& t = tracing();
  if (!t.is_begun || g_is_over.load(std::memory_order_acquire)) return;
  flush(0);
  end_launch_watch();
  set_recording(t, false);
  follow_calls(t);
  settle(kLeaveNs);
  flush(cupti::kFlushForced);
  // A graph that was made while graphs were traced may be launched again, in another session, too.
  if (t.traces_graphs && !has_met_graph()) {
    t.library.functions.disable(cupti::Kind::kGraphTrace);
    t.traces_graphs = false;
  }
  leave(t);
  tell_drain(t, raw::DrainState::kNothing);
  t.is_begun = false;
  g_traced.store(0, std::memory_order_release);
}

void follow_recording_state() noexcept {
  if (!is_traced()) return;
  // Whoever ends tracing has the lock while CUPTI may wait for callbacks, such as this may be.
  const TimedLock lock(g_lock, kPatienceNs);
  if (!lock) return;
  Tracing& t = tracing();
  if (t.is_begun && !g_is_over.load(std::memory_order_acquire)) {
    set_recording(t, !t.is_drained && is_wanted_now(t.session));
    follow_calls(t);
  }
}

namespace {

const Collector g_collector("cuda", nullptr, end_cuda_tracing);  // begun by the driver, see below

}  // namespace

}  // namespace warpline::agent

namespace {

// Lets the driver load the agent when the program initialises it.
int defer_to_driver() noexcept {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&defer_to_driver), &self) == 0) return ENOTSUP;
  return setenv("CUDA_INJECTION64_PATH", self.dli_fname, 1) == 0 ? 0 : ENOMEM;
}

}  // namespace

// Called by the CUDA driver, which found the agent in CUDA_INJECTION64_PATH, from within cuInit.
WL_EXPORT int InitializeInjection(void) {
  using namespace warpline::agent;
  if (!ensure_attached()) return kInjected;
  Session* session = g_session.load(std::memory_order_acquire);
  const bool is_wanted = session != nullptr && session->config.cuda.is_on;
  if (is_wanted) {
    add(session->control->cuda_bound);
    begin_cuda_tracing(false);
  } else {
    prepare_cuda_tracing(launch_folder());
  }
  cuda_comes();
  if (is_standing()) follow_by_thread(is_wanted);
  return kInjected;
}

WL_EXPORT int32_t wl_agent_cuda_attach(void) {
  using namespace warpline::agent;
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return ENOTCONN;
  if (!session->config.cuda.is_on) return ENOTSUP;
  if (!is_cuda_initialised()) return defer_to_driver();
  add(session->control->cuda_bound);
  return begin_cuda_tracing(true);
}

WL_EXPORT void wl_agent_cuda_detach(void) {
  if (!warpline::agent::is_in_announced_session()) warpline::agent::end_cuda_tracing();
}
