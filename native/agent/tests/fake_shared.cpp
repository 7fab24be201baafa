// CUPTI 13.3 with several subscribers: the other one of this process, and the functions that take a
// subscriber. Whatever harms the other is told on standard error, where no test expects anything.
#include "fake_shared.h"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake_cupti.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace fake_shared {
namespace {

constexpr std::uint32_t kVersion = 130300;
constexpr int kDriver = 13030;

std::atomic<bool> g_is_shared{false};
std::atomic<void*> g_ours{nullptr};
thread_local int t_within = 0;  // functions that take a subscriber

// Of the other: whether it collects, and what it was given.
std::atomic<bool> g_collects{true};
std::atomic<std::uint64_t> g_held{0};
std::atomic<std::uint64_t> g_kernels{0};
std::atomic<std::uint64_t> g_cut{0};  // kernels that had not ended
std::atomic<std::uint64_t> g_calls{0};
std::atomic<bool> g_holds{false};

bool is_other_there() {
  static const bool is = std::getenv("FAKE_CUPTI_BUSY") != nullptr;
  return is;
}

void tell_violation(const char* what) { std::fprintf(stderr, "violation: %s\n", what); }

}  // namespace

bool may_join(std::uint32_t version) {
  const char* driver = std::getenv("FAKE_DRIVER_VERSION");
  return is_other_there() && std::getenv("FAKE_CUPTI_SHARES") != nullptr && version >= kVersion &&
         driver != nullptr && std::atoi(driver) >= kDriver;
}

void join(void* subscriber) {
  g_ours = subscriber;
  g_is_shared = true;
}

void leave() { g_ours = nullptr; }

bool is_shared() { return g_is_shared; }

bool is_refused(const char* function) {
  if (!g_is_shared || t_within != 0) return false;
  tell_violation(function);
  g_collects = false;  // what it was called for, the other gets
  return true;
}

void on_kernel() {
  if (is_other_there() && g_collects) ++g_held;
}

void on_call(std::uint32_t domain) {
  if (is_other_there() && domain == 2) ++g_calls;
}

void on_flush(std::uint32_t flags) {
  if (g_is_shared && flags != 0) tell_violation("a flush that is forced");
  if (g_holds && flags == 0) return;
  (g_holds ? g_cut : g_kernels) += g_held.exchange(0);
}

void hold(bool holds) { g_holds = holds; }

void on_finalize() {
  if (g_is_shared) tell_violation("cuptiFinalize");
}

// One call of a function that takes a subscriber, within which the one without it may be called.
class Within {
 public:
  Within(void* subscriber, const char* function) {
    if (!g_is_shared || subscriber == nullptr || subscriber != g_ours) {
      std::fprintf(stderr, "violation: %s without a subscriber\n", function);
    }
    ++t_within;
  }
  ~Within() { --t_within; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
};

}  // namespace fake_shared

EXPORT void fake_other(FakeOther* into) {
  *into = {fake_shared::g_kernels, fake_shared::g_held, fake_shared::g_cut, fake_shared::g_calls};
}

// FAKE_CUPTI_AT_EXIT names a file for what it has when all handlers of the exit have run.
__attribute__((destructor)) static void tell_at_exit() {
  const char* path = std::getenv("FAKE_CUPTI_AT_EXIT");
  FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  FakeOther has{};
  fake_other(&has);
  for (const std::uint64_t count : {has.kernels, has.held, has.cut, has.calls}) {
    std::fprintf(file, "%llu ", static_cast<unsigned long long>(count));
  }
  std::fclose(file);
}

#ifdef FAKE_SHARED
namespace {

using fake_shared::Within;
using Request = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Done = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);
using RequestV2 = void (*)(std::uint8_t**, std::size_t*, std::size_t*, const std::size_t*);
using DoneV2 = void (*)(std::uint8_t*, std::size_t, std::size_t, const std::size_t*);

constexpr int kInvalidParameter = 1;
constexpr std::uint32_t kWholeGraphs = 20;
constexpr std::uint32_t kThreadIds = 21;
constexpr std::size_t kInfo[4] = {sizeof kInfo};

std::atomic<RequestV2> g_request{nullptr};
std::atomic<DoneV2> g_done{nullptr};

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  g_request.load()(buffer, bytes, max_records, kInfo);
}
void done(void*, std::uint32_t, std::uint8_t* buffer, std::size_t bytes, std::size_t valid) {
  g_done.load()(buffer, bytes, valid, kInfo);
}

}  // namespace

EXPORT int cuptiActivityEnable(std::uint32_t kind);
EXPORT int cuptiActivityDisable(std::uint32_t kind);
EXPORT int cuptiActivityEnableAndDump(std::uint32_t kind);
EXPORT int cuptiActivityRegisterCallbacks(Request, Done);
EXPORT int cuptiActivityGetNextRecord(std::uint8_t*, std::size_t, std::uint8_t**);
EXPORT int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t*);
EXPORT int cuptiGetTimestamp(std::uint64_t*);

EXPORT int cuptiActivityEnable_v2(void* subscriber, std::uint32_t kind, const void* config) {
  const Within within(subscriber, __func__);
  return config != nullptr ? kInvalidParameter : cuptiActivityEnable(kind);
}

EXPORT int cuptiActivityDisable_v2(void* subscriber, std::uint32_t kind, const void* config) {
  const Within within(subscriber, __func__);
  return config != nullptr ? kInvalidParameter : cuptiActivityDisable(kind);
}

EXPORT int cuptiActivityEnableAndDump_v2(void* subscriber, std::uint32_t kind, const void* config) {
  const Within within(subscriber, __func__);
  return config != nullptr ? kInvalidParameter : cuptiActivityEnableAndDump(kind);
}

EXPORT int cuptiActivityRegisterCallbacks_v2(void* subscriber, RequestV2 wanted, DoneV2 returned) {
  const Within within(subscriber, __func__);
  g_request = wanted;
  g_done = returned;
  return cuptiActivityRegisterCallbacks(request, done);
}

EXPORT int cuptiActivityGetNextRecord_v2(void* subscriber, std::uint8_t* buffer, std::size_t valid,
                                         std::uint8_t** at) {
  const Within within(subscriber, __func__);
  return cuptiActivityGetNextRecord(buffer, valid, at);
}

EXPORT int cuptiActivityGetNumDroppedRecords_v2(void* subscriber, void* context,
                                                std::uint32_t stream, std::size_t* dropped) {
  const Within within(subscriber, __func__);
  return cuptiActivityGetNumDroppedRecords(context, stream, dropped);
}

EXPORT int cuptiGetTimestamp_v2(void* subscriber, std::uint64_t* time) {
  const Within within(subscriber, __func__);
  return std::getenv("FAKE_CUPTI_NO_TIME") != nullptr ? kInvalidParameter : cuptiGetTimestamp(time);
}

EXPORT int cuptiActivitySetAttribute_v2(void* subscriber, std::uint32_t attribute,
                                        std::size_t* bytes, void* value) {
  const Within within(subscriber, __func__);
  std::uint32_t type = 0;
  if (attribute == kThreadIds && *bytes == sizeof type) std::memcpy(&type, value, sizeof type);
  if (type == 1) return 0;
  std::fprintf(stderr, "violation: attribute %u is not a subscriber's own\n", attribute);
  return kInvalidParameter;
}

EXPORT int cuptiActivityGetAttribute_v2(void* subscriber, std::uint32_t attribute,
                                        std::size_t* bytes, void* value) {
  const Within within(subscriber, __func__);
  if (attribute != kWholeGraphs || *bytes != 1) return kInvalidParameter;
  *static_cast<std::uint8_t*>(value) = std::getenv("FAKE_CUPTI_WHOLE_GRAPHS") != nullptr ? 1 : 0;
  return 0;
}
#endif
