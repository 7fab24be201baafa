#include "cupti/tracing.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "counters/counting.h"
#include "cupti/buffers.h"
#include "cupti/calls.h"
#include "cupti/detach.h"
#include "cupti/kinds.h"
#include "cupti/library.h"
#include "cupti/other.h"
#include "cupti/records.h"
#include "cupti/setup.h"
#include "cupti/shared.h"
#include "cupti/use.h"
#include "cupti/watcher.h"
#include "machine/cuda_devices.h"
#include "pc_sampling/sampling.h"
#include "session/clock.h"
#include "session/collector.h"
#include "session/lock.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "steps/launch_watch.h"
#include "steps/steps.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kPatienceNs = 10'000'000;     // else the watcher notices it at a tick
constexpr std::int64_t kExitPatienceNs = 2'000'000'000;  // for a recording that begins or ends at exit
constexpr std::int64_t kFirstFlushNs = 100'000'000;  // then twice as long each time, to flush_ms
constexpr std::int64_t kWaitFlushNs = 50'000'000;    // a call that waited asks for one no sooner
constexpr std::int64_t kSettledNs = 100'000'000;    // so long after a sample CUPTI may be detached
constexpr std::int64_t kDrainNs = 4'000'000'000;    // for work under way; below _DRAIN_S of the launchers
constexpr std::int64_t kLeaveNs = 1'000'000'000;    // the same, at the end of a recording that was not drained
constexpr long kLookNs = 2'000'000;                  // how often work under way is looked for
constexpr std::size_t kReadyBuffers = 2;             // as many threads may begin to launch at once

// Everything about the tracing of this process. Guarded by g_lock where nothing else is said.
struct Tracing {
  CuptiLibrary library;  // opened once, kept
  RecordReading reading; // unchanged while buffers may come
  cupti::Subscriber subscriber = nullptr;
  Session* session = nullptr;
  bool is_begun = false;
  bool is_drained = false;            // nothing is recorded any more
  bool is_recording = false;          // kinds are on
  bool records_calls = false;         // callbacks that are on, with the next
  WatchedCalls watched;
  bool is_watcher_running = false;
  RecordKinds kinds;                  // on while is_recording, but for those that stay on
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
BufferPool g_pool;
// The process that is being traced, or 0. A fork has it from its parent, may have g_lock locked for
// ever, and cannot use CUDA: whoever comes from outside looks here before anything else.
std::atomic<pid_t> g_traced{0};
std::atomic<bool> g_is_over{false};  // the program exits, and all is written down
std::atomic<bool> g_is_prepared{false};
constinit Watcher g_watcher;

bool is_traced() noexcept {
  const pid_t traced = g_traced.load(std::memory_order_acquire);
  return traced != 0 && traced == getpid();
}

bool is_fork_of_traced() noexcept {
  const pid_t traced = g_traced.load(std::memory_order_acquire);
  return traced != 0 && traced != getpid();
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

// Only a session with graph-level tracing keeps the callbacks for this enabled; others get them only
// while they record.
void on_graph_comes() noexcept {
  meet_graph();  // it may be captured still when CUPTI could be detached
  if (tracing().kinds.collects_any(raw::kCollectsGraphs)) tracing().kinds.trace_graphs();
}

// Work that the program has waited for is complete, and can be saved before a crash: the watcher
// flushes it now. A flush here would delay a program with many launches by 3.5 ms each time (H100).
void on_wait_over(std::int64_t now) noexcept {
  if (now - g_flushed_ns.load(std::memory_order_relaxed) < kWaitFlushNs) return;
  g_flushed_ns.store(now, std::memory_order_relaxed);  // one wait of many is enough
  if (is_traced()) g_watcher.want_flush();  // not in a fork, where its lock may be held forever
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
         t.kinds.collects_any(raw::kCollectsCalls) && !t.kinds.collects_any(kUntried);
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

void switch_graph_nodes(const Tracing& t, bool is_on) noexcept {
  if (!t.kinds.collects_any(raw::kCollectsGraphNodes)) return;
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
    tell_collecting(t.kinds.enable());
  } else {
    t.kinds.disable();
    t.spans.end(timestamp());
    tell_collecting(0);
  }
  switch_graph_nodes(t, is_on);
  switch_counting(is_on);
}

// Makes the callbacks those of what is recorded and of what is watched.
void follow_calls(Tracing& t) noexcept {
  const bool records = t.is_recording && t.kinds.collects_any(raw::kCollectsCalls);
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
  // Graphs go on being traced, see RecordKinds::keeps_on: there may always be one under way.
  settle(t.kinds.traces_graphs() ? kLeaveNs : kDrainNs);
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
  Tracing& t = tracing();
  if (t.is_recording) t.kinds.take_up_unified_memory();
}

// CUPTI's own periodic flush returns full buffers only; a killed program would lose the rest.
void* watch(void* flush_ns_pointer) {
  const auto longest = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(flush_ns_pointer));
  pthread_setname_np(pthread_self(), "warpline-cuda");
  ignore_calls_of_this_thread();
  std::int64_t period = std::min(kFirstFlushNs, longest);
  std::int64_t next_flush = now_ns() + period;
  bool is_drained = false;
  for (Woken woken; (woken = g_watcher.wait()) != Woken::kToEnd;) {
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

// ---- beginning and ending

// Stops the watcher and waits for it. Without g_lock, which it takes itself.
void end_watching() noexcept {
  bool runs = false;
  {
    const Lock lock(g_lock);
    runs = tracing().is_watcher_running;
    tracing().is_watcher_running = false;
  }
  if (runs) g_watcher.stop();
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

// The level of graph tracing is fixed before a process creates its first graph: see RecordKinds::keeps_on.
// A process that initialized CUDA earlier may already have graphs.
void settle_graph_level(const Tracing& t, CudaConfig& config, bool is_late) {
  if (!config.kernels) return;
  if (t.kinds.traces_graphs() && config.graph_nodes) {
    config.graph_nodes = false;
    note(raw::CudaNote::kDoubt,
         "CUDA graphs are traced at graph level, as in an earlier recording of this process");
  } else if (!t.kinds.traces_graphs() && is_late && !config.graph_nodes) {
    config.graph_nodes = true;
    note(raw::CudaNote::kDoubt,
         "CUDA graphs are traced at node level, because CUDA was initialized before profiling started");
  }
}

// See RecordKinds::is_left_out.
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
  t.is_drained = false;
  t.kinds.choose(t.library, config, is_late);
  const bool filters_kernels = t.kinds.keeps_on(cupti::Kind::kConcurrentKernel);
  // Where calls are recorded, a graph without one is left out when the session is finished: that
  // tells a late graph of the recording from an early one of the rest.
  const bool filters_graphs = !t.kinds.collects_any(raw::kCollectsCalls);
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
                t.kinds.collects_any(raw::kCollectsGraphs));
  begin_launch_watch(session);
  begin_counting(session, t.library, t.subscriber);
  set_recording(t, is_wanted_now(&session));
  t.records_calls = false;
  t.watched = {};
  follow_calls(t);
  begin_sampling(session, t.library, t.subscriber, is_late);  // no kind can be turned on after it
  auto* longest = reinterpret_cast<void*>(static_cast<std::intptr_t>(config.flush_ms * 1'000'000));
  t.is_watcher_running = g_watcher.start(watch, longest);
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
  const CuptiUse use;
  end_counting(false);
  end_sampling(false);
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
  if (t.kinds.traces_graphs() && !has_met_graph()) t.kinds.end_graphs();
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

const Collector g_collector("cuda", nullptr, end_cuda_tracing);  // begun by the driver: cupti/injection.cpp

}  // namespace

}  // namespace warpline::agent
