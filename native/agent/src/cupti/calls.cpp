#include "cupti/calls.h"

#include <algorithm>
#include <atomic>
#include <bitset>
#include <iterator>
#include <string_view>

#include "cupti/call_signature.h"
#include "cupti/detach.h"
#include "cupti/parameters.h"
#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "stack/call_chain.h"
#include "stack/python_chain.h"
#include "stack/python_walk.h"
#include "stack/walk.h"
#include "steps/steps.h"
#include "warpline_cuda.h"

namespace warpline::agent {
namespace {

using cupti::CallSite;
using cupti::Domain;

constexpr std::uint32_t kMaxCalls = 2048;  // ids of a domain; CUDA 13 has 807 and 523

enum class Role : std::uint8_t {
  kPlain, kProfilerStart, kProfilerStop, kEndsStreams, kMakesGraphs, kWaits
};

struct Call {
  const char* name = nullptr;  // CUPTI's, for as long as the process lives
  bool is_chosen = false;
  std::uint8_t flags = 0;
  Role role = Role::kPlain;
  Parameters parameters;
  SignatureForm signature = SignatureForm::kNot;
  bool is_on = false;     // its callback
  bool stays_on = false;  // whatever is recorded

  bool is_profilers() const { return role == Role::kProfilerStart || role == Role::kProfilerStop; }

  std::int64_t chain_from_ns = kNoChains;
  std::int64_t python_chain_from_ns = kNoChains;
};
Call g_calls[2][kMaxCalls];  // [domain - 1]; written before any callback is on
cupti::Functions g_functions;  // likewise
std::atomic<std::uint32_t> g_epoch{1};  // changes when callbacks are turned on or off

// A call is recorded when its name, without "cuda" or "cu", begins with one of these. Left out are
// the many that only ask or set something, such as cudaGetDevice and cudaStreamIsCapturing.
constexpr std::string_view kWorkStarts[] = {
    "Launch", "GraphLaunch", "Memcpy", "Memset",
};
constexpr std::string_view kTellingStarts[] = {
    // waiting and ordering
    "DeviceSynchronize", "ThreadSynchronize", "StreamSynchronize", "EventSynchronize",
    "CtxSynchronize", "EventRecord", "EventQuery", "StreamQuery", "StreamWait", "StreamWrite",
    "StreamBatchMemOp", "StreamAddCallback", "SignalExternal", "WaitExternal",
    // streams, events, graphs
    "StreamCreate", "StreamDestroy", "EventCreate", "EventDestroy", "StreamBeginCapture",
    "StreamEndCapture", "GraphCreate", "GraphInstantiate", "GraphExecUpdate", "GraphExecDestroy",
    "GraphUpload", "GraphDestroy", "GraphClone",
    // memory
    "Malloc", "MemAlloc", "Free", "MemFree", "HostAlloc", "HostRegister", "HostUnregister",
    "MemHostAlloc", "MemHostRegister", "MemHostUnregister", "MemCreate", "MemRelease", "MemMap",
    "MemUnmap", "MemSetAccess", "MemAddress", "MemPoolCreate", "MemPoolDestroy", "MemPoolTrimTo",
    "MemAdvise", "MemPrefetch", "MulticastCreate", "MulticastBind", "Ipc", "ImportExternal",
    // code, contexts, devices
    "ModuleLoad", "ModuleUnload", "LibraryLoad", "LibraryUnload", "Link", "Init", "DeviceReset",
    "CtxCreate", "CtxDestroy", "CtxDetach", "DevicePrimaryCtxRe", "GreenCtxCreate",
    "GreenCtxDestroy", "ThreadExit",
    "DeviceEnablePeerAccess", "CtxEnablePeerAccess", "Profiler",
};

// Calls that end streams. Their handles may then come to mean other streams.
constexpr std::string_view kStreamEnds[] = {
    "StreamDestroy", "CtxDestroy", "CtxDetach",  "DevicePrimaryCtxRe",
    "GreenCtxDestroy", "DeviceReset", "ThreadExit",
};

// Calls that return when work of the device has ended; so do copies that are not asynchronous.
constexpr std::string_view kWaits[] = {
    "DeviceSynchronize", "ThreadSynchronize", "StreamSynchronize", "EventSynchronize",
    "CtxSynchronize",
};

// Calls by which a graph comes to be.
constexpr std::string_view kGraphStarts[] = {"StreamBeginCapture", "GraphCreate", "GraphInstantiate"};

template <class Starts>
bool begins_with_any(std::string_view name, const Starts& starts) {
  return std::any_of(std::begin(starts), std::end(starts),
                     [name](std::string_view start) { return name.starts_with(start); });
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"__cuda", "cuda", "cu"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

bool waits_for_device(std::string_view name) {
  const bool copies = name.starts_with("Memcpy") && name.find("Async") == name.npos;
  return copies || begins_with_any(name, kWaits);
}

// Calls that wait, and calls that concern memory, for those who ask for call chains of such.
constexpr std::string_view kSyncStarts[] = {
    "DeviceSynchronize", "ThreadSynchronize", "StreamSynchronize", "EventSynchronize",
    "CtxSynchronize", "StreamWait", "EventQuery", "StreamQuery",
};
constexpr std::string_view kMemoryStarts[] = {
    "Mem", "Malloc", "Free", "Host", "ArrayCreate", "ArrayDestroy", "Ipc", "Multicast",
};

CallKind kind_of(std::string_view name) {
  if (name.starts_with("Launch") || name.starts_with("GraphLaunch")) return CallKind::kKernel;
  if (begins_with_any(name, kSyncStarts)) return CallKind::kSync;
  return begins_with_any(name, kMemoryStarts) ? CallKind::kMemory : CallKind::kOther;
}

Call describe(const char* full_name, Domain domain, const CudaConfig& config) {
  const CudaCalls calls = config.calls;
  const std::string_view name = without_prefix(full_name);
  const bool is_work = begins_with_any(name, kWorkStarts);
  Call call;
  call.name = full_name;
  const auto kind = static_cast<std::size_t>(kind_of(name));
  call.chain_from_ns = config.chains_from_ns[kind];
  call.python_chain_from_ns = config.python_chains_from_ns[kind];
  call.is_chosen = calls == CudaCalls::kAll ||
                   (calls == CudaCalls::kTelling &&
                    (is_work || begins_with_any(name, kTellingStarts)));
  // A host function occupies its stream but no device work answers to it.
  if (is_work && !name.starts_with("LaunchHostFunc")) call.flags |= raw::Call::kLaunches;
  if (name.starts_with("GraphLaunch")) call.flags |= raw::Call::kIsGraph;
  if (name.starts_with("StreamBeginCapture") || name.starts_with("StreamEndCapture")) {
    call.flags |= raw::Call::kCaptures;
  }
  call.parameters = parameters_of(name, domain == Domain::kRuntime);
  call.signature = signature_form(name);
  if (!tells_targets(config)) call.parameters.concerns = Concerns::kNothing;
  if (begins_with_any(name, kStreamEnds)) call.role = Role::kEndsStreams;
  if (begins_with_any(name, kGraphStarts)) call.role = Role::kMakesGraphs;
  if (waits_for_device(name)) call.role = Role::kWaits;
  if (name.starts_with("ProfilerStart")) call.role = Role::kProfilerStart;
  if (name.starts_with("ProfilerStop")) call.role = Role::kProfilerStop;
  return call;
}

// What a thread is in the midst of. The runtime's calls use the driver's: the outermost counts.
struct ThreadCalls {
  std::uint32_t epoch;
  std::uint32_t depth;
  std::uint32_t outermost;  // domain << 16 | id
  bool is_ignored;
  std::int64_t start;
  std::uint64_t named_generation;  // whose logs know the names below
  std::bitset<2 * kMaxCalls> named;
};
thread_local constinit ThreadCalls t_calls{0, 0, 0, false, 0, 0, {}};

// Writes the name of a call unless this thread's log has it. With a lease of that log held.
bool define_name(ThreadLog& log, std::uint32_t key, const Call& call) noexcept {
  const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
  if (t_calls.named_generation != generation) {
    t_calls.named.reset();
    t_calls.named_generation = generation;
  }
  const std::size_t bit = ((key >> 16) - 1) * kMaxCalls + (key & 0xffff);
  if (t_calls.named[bit]) [[likely]] return true;
  if (!log.define(raw::Kind::kCallName, key, 0, call.name)) return false;
  t_calls.named[bit] = true;
  return true;
}

bool lasts(std::int64_t duration, std::int64_t from_ns) noexcept {
  return from_ns >= 0 && duration >= from_ns;
}

void record(std::uint32_t key, const Call& call, const cupti::CallData& data) noexcept {
  const std::int64_t end = now_ns();
  LogLease log = recording_log();
  if (!log || !define_name(*log, key, call)) return;
  raw::Call record{
      .flags = call.flags,
      .call = key & 0xffff,
      .api = key >> 16,
      .start_ns = static_cast<std::uint64_t>(t_calls.start),
      .end_ns = static_cast<std::uint64_t>(end),
      .correlation = written_correlation(data.correlation),
      .status = data.status == nullptr ? 0 : *static_cast<const std::uint32_t*>(data.status)};
  NativeStack stack;
  if (lasts(end - t_calls.start, call.chain_from_ns)) record.chain = write_chain(*log, stack);
  if (record.chain != 0) record.flags |= raw::Call::kHasChain;
  if (lasts(end - t_calls.start, call.python_chain_from_ns)) {
    record.python_chain = write_python_chain(*log, stack, PythonPlace::kInCall);
    if (record.python_chain != 0) record.flags |= raw::Call::kHasPythonChain;
  }
  if (call.parameters.concerns != Concerns::kNothing) {
    add_target(g_functions, call.parameters, data, record);
  }
  if (call.parameters.volume != Volume::kUnknown && moves_nothing(call.parameters.volume, data)) {
    record.flags &= static_cast<std::uint8_t>(~raw::Call::kLaunches);
  }
  log->put(record);
}

bool bounds_ranges() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session != nullptr && profiler_calls_bound_ranges(*session);
}

// cudaProfilerStart begins a step; cudaProfilerStop says nothing, as a step lasts to the next.
bool begins_steps() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session != nullptr &&
         read_switch(*session->control).mode() == raw::RangeMode::kSteps;
}

void enter(std::uint32_t key, const Call& call, const CallHooks& hooks) noexcept {
  if (t_calls.depth++ != 0) return;
  t_calls.outermost = key;
  if (call.role == Role::kEndsStreams) [[unlikely]] forget_streams();
  if (call.role == Role::kMakesGraphs) [[unlikely]] hooks.graph_comes();
  if (call.role == Role::kProfilerStop && bounds_ranges()) [[unlikely]] {
    if (begins_steps()) return;
    window_end();
    hooks.recording_changed();
    // Turning callbacks off has forgotten this call, if recording ended.
    return;
  }
  t_calls.start = now_ns();
}

void leave(std::uint32_t key, const Call& call, const cupti::CallData& data,
           const CallHooks& hooks) noexcept {
  if (t_calls.depth == 0 || --t_calls.depth != 0 || t_calls.outermost != key) return;
  if (call.is_profilers() && bounds_ranges()) [[unlikely]] {
    if (call.role == Role::kProfilerStart) {
      if (begins_steps()) {
        step_begins();
      } else {
        const bool is_outermost = window_begin();
        hooks.recording_changed();
        if (is_outermost) note_window(raw::Note::kSampleBegin, {});
      }
    }
    return;
  }
  if (call.is_chosen) record(key, call, data);
  if ((call.flags & raw::Call::kIsGraph) != 0) [[unlikely]] meet_graph();
  // After it, as recording may begin or end by that.
  if (sees_calls() && call.signature != SignatureForm::kNot) {
    see_call(signature_of(call.signature, key >> 16, key & 0xffff, data.parameters), t_calls.start);
  }
  // Last: what the call itself has to tell is written.
  if (call.role == Role::kWaits && call.is_chosen) hooks.wait_over(now_ns());
}

bool is_watched(WatchedCalls watched, const Call& call, std::uint32_t number) noexcept {
  if (call.signature == SignatureForm::kNot) return false;
  return watched.which == WatchedCalls::Which::kAll ||
         (watched.which == WatchedCalls::Which::kOne && watched.number == number);
}

}  // namespace

bool profiler_calls_bound_ranges(const Session& session) noexcept {
  const raw::RangeMode mode = read_switch(*session.control).mode();
  return mode == raw::RangeMode::kCudaProfilerApi ||
         (mode == raw::RangeMode::kSteps && session.config.sample.by_calls);
}

bool tells_targets(const CudaConfig& config) noexcept {
  return config.calls != CudaCalls::kNone && !config.cupti_waits &&
         (config.waits || config.events);
}

void choose_calls(const cupti::Functions& functions, const CudaConfig& config) noexcept {
  g_functions = functions;
  for (const std::int64_t from_ns : config.python_chains_from_ns) {
    if (from_ns != kNoChains) meet_python();
  }
  for (std::uint32_t domain = 1; domain <= 2; ++domain) {
    for (std::uint32_t id = 1; id < kMaxCalls; ++id) {
      const char* name = nullptr;
      const bool is_known =
          functions.get_callback_name(domain, id, &name) == cupti::kSuccess && name != nullptr;
      g_calls[domain - 1][id] = is_known ? describe(name, Domain{domain}, config) : Call{};
    }
  }
}

void switch_calls(const cupti::Functions& functions, cupti::Subscriber subscriber,
                  bool records, WatchedCalls watched) noexcept {
  bool has_changed = false;
  for (std::uint32_t domain = 1; domain <= 2; ++domain) {
    for (std::uint32_t id = 1; id < kMaxCalls; ++id) {
      Call& call = g_calls[domain - 1][id];
      if (call.stays_on) continue;
      const bool is_wanted =
          (records && call.is_chosen) || is_watched(watched, call, call_number(domain, id));
      if (is_wanted == call.is_on) continue;
      functions.enable_callback(is_wanted ? 1 : 0, subscriber, domain, id);
      call.is_on = is_wanted;
      has_changed = true;
    }
  }
  if (!has_changed) return;
  forget_streams();  // what ended meanwhile was not seen
  g_epoch.fetch_add(1, std::memory_order_release);
}

void keep_calls_on(const cupti::Functions& functions, cupti::Subscriber subscriber,
                   bool profilers, bool graphs) noexcept {
  for (std::uint32_t domain = 1; domain <= 2; ++domain) {
    for (std::uint32_t id = 1; id < kMaxCalls; ++id) {
      Call& call = g_calls[domain - 1][id];
      call.stays_on = (profilers && call.is_profilers()) ||
                      (graphs && call.role == Role::kMakesGraphs);
      if (call.stays_on) functions.enable_callback(1, subscriber, domain, id);
    }
  }
}

void keep_driver_call_on(const cupti::Functions& functions, cupti::Subscriber subscriber,
                         std::uint32_t id) noexcept {
  constexpr auto kDriver = static_cast<std::uint32_t>(cupti::Domain::kDriver);
  if (id < kMaxCalls) g_calls[kDriver - 1][id].stays_on = true;
  functions.enable_callback(1, subscriber, kDriver, id);
}

void ignore_calls_of_this_thread() noexcept { t_calls.is_ignored = true; }

void on_call(std::uint32_t domain, std::uint32_t id, const cupti::CallData& data,
             const CallHooks& hooks) noexcept {
  if (domain - 1 > 1 || id >= kMaxCalls || t_calls.is_ignored) [[unlikely]] return;
  const std::uint32_t epoch = g_epoch.load(std::memory_order_relaxed);
  if (t_calls.epoch != epoch) [[unlikely]] {
    t_calls.epoch = epoch;
    t_calls.depth = 0;
  }
  const Call& call = g_calls[domain - 1][id];
  const std::uint32_t key = domain << 16 | id;
  if (data.site == CallSite::kEnter) {
    see_correlation(data.correlation);
    enter(key, call, hooks);
  } else {
    leave(key, call, data, hooks);
  }
}

}  // namespace warpline::agent
