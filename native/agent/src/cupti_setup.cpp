#include "cupti_setup.h"

#include "clock.h"
#include "thread_log.h"

namespace warpline::agent {

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

cupti::Result subscribe(const CuptiLibrary& library, const CuptiHooks& hooks,
                        cupti::Subscriber& subscriber, std::string& other) noexcept {
  const cupti::Functions& f = library.functions;
  if (f.subscribe_v2 == nullptr) return f.subscribe(&subscriber, hooks.callback, nullptr);
  char name[128] = "";
  cupti::SubscriberParams parameters{};
  parameters.bytes = library.version < cupti::kVersion13_2 ? cupti::kSubscriberParamsBytes13_0
                                                             : sizeof parameters;
  parameters.name = "Warpline";
  parameters.other_name = name;
  parameters.other_name_bytes = sizeof name;
  const cupti::Result result = f.subscribe_v2(&subscriber, hooks.callback, nullptr, &parameters);
  name[sizeof name - 1] = '\0';
  other = name;
  return result;
}

void tell_subscribe_failed(const CuptiLibrary& library, cupti::Result result,
                           const std::string& other) {
  if (result == cupti::kOtherSubscriber) {
    note(raw::CudaNote::kOtherProfiler, other.empty() ? "its name is not told" : other);
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
    note(raw::CudaNote::kDoubt, "this CUPTI is newer than Warpline knows");
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
