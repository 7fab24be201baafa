#include "pc_sampling/sampling.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "counters/abi.h"
#include "counters/processes.h"
#include "cupti/calls.h"
#include "cupti/setup.h"
#include "machine/cuda_driver.h"
#include "pc_sampling/context_sampler.h"
#include "pc_sampling/cubins.h"
#include "pc_sampling/sample_sums.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/own_thread.h"
#include "session/process.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kSoonestNs = 50'000'000;     // samples are taken between so often
constexpr std::int64_t kLatestNs = 1'000'000'000;   // and so rarely, by how many there are
constexpr std::size_t kManySums = 1u << 15;         // in one go: take them sooner
constexpr std::size_t kMostSums = 1u << 20;         // that wait to be written down
// Sums are written down after an eighth of the time before, so that this much is missing if the process
// ends without notice: in CPython, children of multiprocessing do.
constexpr std::int64_t kPartOfRun = 8;
constexpr std::int64_t kFirstWriteNs = 1'000'000'000;
constexpr std::int64_t kLongestWriteNs = 300'000'000'000;
constexpr std::int64_t kCallbackPatienceNs = 2'000'000'000;
constexpr std::int64_t kExitPatienceNs = 5'000'000'000;

// Sampling of a session in this process. Never freed: a thread may be in a callback.
struct Sampling {
  Sampling(const Session& session, const cupti::Functions& of_cupti,
           const cupti::PcFunctions& of_samples)
      : base(of_cupti),
        functions(of_samples),
        period_exponent(session.config.pc_sampling.period_exponent),
        devices(session.config.counters.devices),
        cubins(session, of_samples),
        sums(1u << period_exponent) {}

  cupti::Functions base;
  cupti::PcFunctions functions;
  std::uint32_t period_exponent;
  std::vector<std::uint32_t> devices;  // CUDA's ordinals; empty: all
  Cubins cubins;
  std::atomic<bool> has_told{false};  // how it is sampled
  bool has_unsampled = false;  // contexts, and that was told; under `lock`
  std::atomic<bool> has_green{false};  // there are green contexts: sampling is over

  // Held while samples are taken. A callback waits for it with patience: who holds it may wait for
  // what the callback's thread has locked in the driver.
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  std::vector<std::unique_ptr<ContextSampler>> contexts;
  SampleSums sums;

  // Of the watcher.
  std::int64_t take_period_ns = kSoonestNs;
  std::int64_t next_take_ns = 0;
  std::int64_t begun_ns = now_ns();
  std::int64_t next_write_ns = begun_ns + kFirstWriteNs;
};

constexpr std::uint32_t kMostDriverCalls = 2048;  // ids of the driver's domain; CUDA 13 has 807
constexpr char kContextDoubt[] =
    "samples are missing: only one context per GPU is sampled at a time, because CUPTI fails with several";
constexpr char kGreenDoubt[] =
    "samples are missing: sampling ended when the program created a green context, where CUPTI fails";

std::array<bool, kMostDriverCalls> g_makes_green{};  // by id; written before there is a sampling
std::atomic<Sampling*> g_sampling{nullptr};  // of the session, while it samples

Sampling* sampling_now() noexcept { return g_sampling.load(std::memory_order_acquire); }

void tell_no_sampling(const std::string& reason) { note(raw::CudaNote::kNoSampling, reason); }

const char* find_functions(const CuptiLibrary& library, cupti::PcFunctions& f) {
  FunctionFinder finder(library);
  finder.need("cuptiGetDeviceId", f.device_id);
  finder.need("cuptiPCSamplingEnable", f.enable);
  finder.need("cuptiPCSamplingDisable", f.disable);
  finder.need("cuptiPCSamplingGetNumStallReasons", f.stall_count);
  finder.need("cuptiPCSamplingGetStallReasons", f.stalls);
  finder.need("cuptiPCSamplingSetConfigurationAttribute", f.configure);
  finder.need("cuptiPCSamplingGetData", f.take);
  finder.need("cuptiGetCubinCrc", f.checksum);
  return finder.missing();
}

// ---- with the lock held

void tell_missing(const Sampling& s, const char* function, cupti::Result result) {
  note(raw::CudaNote::kSamplingDoubt,
       std::string("samples are missing: ") + function + ": " + words_of(s.base, result));
}

void take_from(Sampling& s, ContextSampler& context) {
  const cupti::Result result = context.collect(s.sums);
  if (result != cupti::kSuccess) tell_missing(s, "cuptiPCSamplingGetData", result);
  if (s.sums.size() > kMostSums) s.sums.write();
}

void take_from_all(Sampling& s) {
  for (const auto& context : s.contexts) take_from(s, *context);
}

void end_sampler(Sampling& s, ContextSampler& context) {
  take_from(s, context);
  const cupti::Result result = context.end(s.sums);
  if (result != cupti::kSuccess) tell_missing(s, "cuptiPCSamplingDisable", result);
}

// ---- contexts and modules

void tell_sampling(Sampling& s, const ContextSampler& context) {
  if (s.has_told.exchange(true)) return;
  note(raw::CudaNote::kSampling, "every 2^" + std::to_string(s.period_exponent) + " cycles, " +
                                     std::to_string(context.stall_count()) + " stall reasons");
}

bool is_sampled(const Sampling& s, std::uint32_t device) noexcept {
  return s.devices.empty() ||
         std::find(s.devices.begin(), s.devices.end(), device) != s.devices.end();
}

// Programs that made contexts in several threads crashed in CUPTI 13.0, in half of the runs (H100), while
// samples of several contexts of a GPU were taken.
bool is_device_taken(const Sampling& s, std::uint32_t device) noexcept {
  return std::any_of(s.contexts.begin(), s.contexts.end(),
                     [device](const auto& each) { return each->device() == device; });
}

void begin_in_context(Sampling& s, void* context) {
  std::uint32_t device = 0;
  if (s.has_green.load(std::memory_order_acquire)) return;
  if (s.functions.device_id(context, &device) != cupti::kSuccess || !is_sampled(s, device)) return;
  const TimedLock lock(s.lock, kCallbackPatienceNs);
  if (!lock) {
    return note(raw::CudaNote::kSamplingDoubt, "samples of a context are missing: CUPTI was busy");
  }
  if (is_device_taken(s, device)) {
    if (!std::exchange(s.has_unsampled, true)) note(raw::CudaNote::kSamplingDoubt, kContextDoubt);
    return;
  }
  const char* function = "";
  cupti::Result result = cupti::kSuccess;
  auto made = ContextSampler::make(s.functions, context, device, s.period_exponent, function, result);
  if (made == nullptr) return tell_no_sampling(refusal_of(s.base, function, result));
  tell_sampling(s, *made);
  s.sums.see_device(device);
  s.contexts.push_back(std::move(made));
}

// Contexts that the program had before it was profiled.
void begin_primary_contexts(Sampling& s) {
  const Driver driver;
  int count = 0;
  driver.call("cuDeviceGetCount", &count);
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    driver.call("cuDevicePrimaryCtxGetState", device, &flags, &is_active);
    void* context = nullptr;
    if (is_active == 0 || !driver.call("cuDevicePrimaryCtxRetain", &context, device)) continue;
    begin_in_context(s, context);
    driver.call("cuDevicePrimaryCtxRelease_v2", device);
  }
}

void end_in_context(Sampling& s, const void* context) {
  const TimedLock lock(s.lock, kCallbackPatienceNs);
  if (!lock) return;
  std::erase_if(s.contexts, [&](const auto& each) {
    if (each->context() != context) return false;
    end_sampler(s, *each);
    return true;
  });
}

// What is loaded in place of a module may have its addresses.
void take_before_unload(Sampling& s, const void* context) {
  const TimedLock lock(s.lock, kCallbackPatienceNs);
  if (!lock) return;
  for (const auto& each : s.contexts) {
    if (each->context() == context) take_from(s, *each);
  }
}

void keep_module(Sampling& s, const cupti::ResourceData& resource) {
  const auto* module = static_cast<const cupti::ModuleData*>(resource.descriptor);
  std::uint32_t device = 0;
  if (module == nullptr || s.cubins.keep(*module)) return;
  if (s.functions.device_id(resource.context, &device) != cupti::kSuccess) return;
  if (const TimedLock lock(s.lock, kCallbackPatienceNs); lock) s.sums.leave_out_module(device);
}

// With green contexts, cuptiPCSamplingGetData failed with an unknown error (H100, CUPTI 13.0), and the
// program crashed in the end. So sampling ends, as it should, before the first one comes.
void end_for_green_contexts(Sampling& s) {
  if (s.has_green.exchange(true, std::memory_order_acq_rel)) return;
  const TimedLock lock(s.lock, kCallbackPatienceNs);
  if (!lock) return note(raw::CudaNote::kSamplingDoubt, kGreenDoubt);
  for (const auto& context : s.contexts) end_sampler(s, *context);
  s.contexts.clear();
  note(raw::CudaNote::kSamplingDoubt, kGreenDoubt);
}

// ---- the end

void end_all(Sampling& s) noexcept {
  try {
    const Lock lock(s.lock);
    for (const auto& context : s.contexts) end_sampler(s, *context);
    s.contexts.clear();
    s.sums.write();
  } catch (...) {
  }
}

void* end_in_thread(void* sampling) {
  pthread_setname_np(pthread_self(), "warpline-pc-end");
  ignore_calls_of_this_thread();
  end_all(*static_cast<Sampling*>(sampling));
  return nullptr;
}

// CUPTI may wait for kernels, which may wait for what never comes; the process is to end anyway.
void end_with_patience(Sampling& s) noexcept {
  pthread_t thread;
  if (!start_own_thread(thread, end_in_thread, &s)) return end_all(s);
  const std::int64_t until = read_clock_ns(CLOCK_REALTIME) + kExitPatienceNs;
  const timespec time{static_cast<time_t>(until / 1'000'000'000),
                      static_cast<long>(until % 1'000'000'000)};
  if (pthread_timedjoin_np(thread, nullptr, &time) == 0) return;
  pthread_detach(thread);
  note(raw::CudaNote::kSamplingDoubt, "the last samples are missing: CUPTI did not return them in time");
}

void turn_resources_on(const cupti::Functions& functions, cupti::Subscriber subscriber) {
  constexpr auto kResource = static_cast<std::uint32_t>(cupti::Domain::kResource);
  for (const std::uint32_t id : {cupti::kContextBegins, cupti::kContextEnds, cupti::kModuleLoaded,
                                 cupti::kModuleEnds}) {
    functions.enable_callback(1, subscriber, kResource, id);
  }
}

// Finds the calls that make green contexts, by name, and turns their callbacks on.
void turn_green_calls_on(const cupti::Functions& functions, cupti::Subscriber subscriber) {
  constexpr auto kDriver = static_cast<std::uint32_t>(cupti::Domain::kDriver);
  for (std::uint32_t id = 1; id < kMostDriverCalls; ++id) {
    const char* name = nullptr;
    if (functions.get_callback_name(kDriver, id, &name) != cupti::kSuccess || name == nullptr) continue;
    if (std::string_view(name).starts_with("cuGreenCtxCreate")) {
      functions.enable_callback(1, subscriber, kDriver, id);
      g_makes_green[id] = true;
    }
  }
}

}  // namespace

void begin_sampling(const Session& session, const CuptiLibrary& library,
                    cupti::Subscriber subscriber, bool is_late) noexcept {
  if (!session.config.pc_sampling.is_on()) return;
  try {
    cupti::PcFunctions functions{};
    const char* missing = find_functions(library, functions);
    if (missing != nullptr || library.version < cupti::kVersion12_6) {
      const std::string lacks = missing == nullptr ? "is too old" : std::string("has no ") + missing;
      return tell_no_sampling(library.file + " " + lacks + "\tuse CUPTI 12.6 or later");
    }
    std::string problem;
    if (!is_counted_process(session.config.counters.processes, problem)) {
      return note(raw::CudaNote::kNotChosen, problem);
    }
    auto made = std::make_unique<Sampling>(session, library.functions, functions);
    turn_resources_on(library.functions, subscriber);
    turn_green_calls_on(library.functions, subscriber);
    Sampling& s = *made.release();
    g_sampling.store(&s, std::memory_order_release);
    if (is_late) begin_primary_contexts(s);
  } catch (...) {
  }
}

void end_sampling(bool is_exit) noexcept {
  Sampling* s = g_sampling.exchange(nullptr, std::memory_order_acq_rel);
  if (s == nullptr) return;
  if (is_exit) {
    end_with_patience(*s);
  } else {
    end_all(*s);
  }
}

void tick_sampling() noexcept {
  Sampling* s = sampling_now();
  if (s == nullptr) return;
  const std::int64_t now = now_ns();
  if (now < s->next_take_ns) return;
  try {
    const Lock lock(s->lock);
    const std::size_t before = s->sums.size();
    take_from_all(*s);
    const bool are_many = s->sums.size() > before + kManySums;
    s->take_period_ns = are_many ? std::max(s->take_period_ns / 2, kSoonestNs)
                                 : std::min(s->take_period_ns * 2, kLatestNs);
    s->next_take_ns = now + s->take_period_ns;
    if (now < s->next_write_ns) return;
    s->sums.write();
    const std::int64_t part_ns = (now - s->begun_ns) / kPartOfRun;
    s->next_write_ns = now + std::clamp(part_ns, kFirstWriteNs, kLongestWriteNs);
  } catch (...) {
  }
}

void flush_sampling() noexcept {
  Sampling* s = sampling_now();
  if (s == nullptr) return;
  try {
    const Lock lock(s->lock);
    take_from_all(*s);
    s->sums.write();
  } catch (...) {
  }
}

void sample_resource(std::uint32_t id, const cupti::ResourceData& resource) noexcept {
  Sampling* s = sampling_now();
  if (s == nullptr) return;
  try {
    switch (id) {
      case cupti::kContextBegins: return begin_in_context(*s, resource.context);
      case cupti::kContextEnds: return end_in_context(*s, resource.context);
      case cupti::kModuleLoaded: return keep_module(*s, resource);
      case cupti::kModuleEnds: return take_before_unload(*s, resource.context);
      default: return;
    }
  } catch (...) {
  }
}

bool sample_call(std::uint32_t id, const cupti::CallData& call) noexcept {
  if (id >= kMostDriverCalls || !g_makes_green[id]) return false;
  Sampling* s = sampling_now();
  if (s == nullptr || call.site != cupti::CallSite::kEnter) return s != nullptr;
  try {
    end_for_green_contexts(*s);
  } catch (...) {
  }
  return true;
}

}  // namespace warpline::agent
