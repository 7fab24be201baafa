#include "cupti/setup.h"

#include <atomic>

#include "cupti/other.h"
#include "session/clock.h"
#include "session/thread_log.h"

namespace warpline::agent {
namespace {

constexpr int kClockReadings = 5;
constexpr std::int64_t kClockApartNs = 50'000'000;
std::atomic<std::int64_t> g_clock_written_ns{0};

struct ClockPair {
  std::uint64_t theirs = 0;
  std::int64_t ours = 0;
};

// The reading of several that took the least time, ours from the middle of it. Returns false when
// CUPTI does not tell its time.
bool read_clocks(const cupti::Functions& functions, ClockPair& best) noexcept {
  std::int64_t least_ns = -1;
  for (int i = 0; i < kClockReadings; ++i) {
    std::uint64_t theirs = 0;
    const std::int64_t before = now_ns();
    if (functions.get_timestamp(&theirs) != cupti::kSuccess) return false;
    const std::int64_t took = now_ns() - before;
    if (least_ns >= 0 && took >= least_ns) continue;
    least_ns = took;
    best = {theirs, before + took / 2};
  }
  return true;
}

}  // namespace

void write_clock(const cupti::Functions& functions, bool is_first) noexcept {
  if (functions.register_timestamp != nullptr) return;
  const std::int64_t written_ns = g_clock_written_ns.load(std::memory_order_relaxed);
  if (!is_first && now_ns() - written_ns < kClockApartNs) return;
  ClockPair pair;
  if (!read_clocks(functions, pair)) return;
  LogLease log = definition_log();
  if (!log) return;
  if (log->put(raw::CudaClock{.cupti_ns = pair.theirs,
                              .host_ns = static_cast<std::uint64_t>(pair.ours)})) {
    g_clock_written_ns.store(pair.ours, std::memory_order_relaxed);
  }
}

void note(raw::CudaNote kind, const std::string& text) noexcept {
  if (LogLease log = definition_log()) {
    log->define(raw::Kind::kNote, static_cast<std::uint32_t>(kind),
                static_cast<std::uint64_t>(now_ns()), text);
  }
}

std::string words_of(const cupti::Functions& functions, cupti::Result result) {
  const char* text = nullptr;
  functions.get_result_string(result, &text);
  return (text == nullptr ? "" : text) + (" (" + std::to_string(result) + ")");
}

std::string refusal_of(const cupti::Functions& functions, const char* function,
                       cupti::Result result) {
  return std::string(function) + ": " + words_of(functions, result) + '\t' + std::to_string(result);
}

cupti::Result subscribe_as(const CuptiLibrary& library, const CuptiHooks& hooks, bool allows_others,
                           cupti::Subscriber& subscriber, std::string& other) noexcept {
  char name[128] = "";
  cupti::SubscriberParams parameters{};
  parameters.bytes = library.version < cupti::kVersion13_2 ? cupti::kSubscriberParamsBytes13_0
                                                             : sizeof parameters;
  parameters.name = "Warpline";
  parameters.other_name = name;
  parameters.other_name_bytes = sizeof name;
  parameters.allow_others = allows_others ? 1 : 0;
  const cupti::Result result =
      library.own.subscribe_v2(&subscriber, hooks.callback, nullptr, &parameters);
  name[sizeof name - 1] = '\0';
  other = name;
  return result;
}

cupti::Result subscribe(CuptiLibrary& library, const CuptiHooks& hooks,
                        cupti::Subscriber& subscriber, std::string& other) noexcept {
  library.functions = library.own;
  library.is_shared = false;
  const cupti::Functions& f = library.functions;
  if (f.subscribe_v2 == nullptr) return f.subscribe(&subscriber, hooks.callback, nullptr);
  return subscribe_as(library, hooks, false, subscriber, other);
}

void tell_subscribe_failed(const CuptiLibrary& library, cupti::Result result,
                           const std::string& other) {
  if (result == cupti::kOtherSubscriber) {
    note(raw::CudaNote::kOtherProfiler, held_by(library, other));
  } else {
    note(raw::CudaNote::kUnavailable,
         library.file + ": cuptiSubscribe: " + words_of(library.functions, result));
  }
}

void tell_library(const CuptiLibrary& library) {
  note(raw::CudaNote::kUsing, "CUPTI " + std::to_string(library.version) + " " + library.file);
  if (library.version == cupti::kVersion13_0_0) {
    note(raw::CudaNote::kDoubt,
         "CUPTI 13.0.0 can hang or crash; update nvidia-cuda-cupti to 13.0.85 or later");
  } else if (library.version >= cupti::kVersionAfterKnown) {
    note(raw::CudaNote::kDoubt, "this CUPTI version is newer than the versions tested with Warpline");
  }
}

cupti::Result set_up(const CuptiLibrary& library, const CuptiHooks& hooks,
                     const char*& function) noexcept {
  const cupti::Functions& f = library.functions;
  cupti::Result result = cupti::kSuccess;
  if (f.register_timestamp != nullptr) {
    function = "cuptiActivityRegisterTimestampCallback";
    result = f.register_timestamp(hooks.timestamp);
  }
  if (result != cupti::kSuccess) return result;
  if (f.set_thread_id_type != nullptr) f.set_thread_id_type(cupti::kThreadIdsOfSystem);
  if (f.set_attribute != nullptr) {
    std::uint8_t yes = 1;
    std::size_t bytes = sizeof yes;
    f.set_attribute(cupti::kBuffersAreZeroed, &bytes, &yes);
  }
  // Of the queries of events and streams that find work unfinished there may be millions.
  if (f.enable_all_sync_records != nullptr) f.enable_all_sync_records(0);
  function = "cuptiActivityRegisterCallbacks";
  return f.register_callbacks(hooks.buffer_wanted, hooks.buffer_done);
}

}  // namespace warpline::agent
