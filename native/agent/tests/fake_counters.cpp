// A range profiler as strict as the real one was seen to be on an H100.
//
// What a caller does wrong is told on standard error, where no test expects anything, besides the
// result that it gets. A kernel runs as often as it is replayed: it adds one to a number in the
// program's memory, which is restored between passes, and to the number of executions.
//
// Values are made of what was launched, so that tests can state them: gpu__time_duration.sum is
// 1000 ns * grid x; any other metric is 1000 * length of its name + grid x + number of the kernel / 64.
// Those of a range with several kernels are added up. Every metric with "__" and "." in its name is
// known, except those that begin with "no__". One pass, or 9 with a metric that has "_throughput".
//
// The environment sets it up: FAKE_COUNTERS_REFUSE (results of functions, such as
// cuptiRangeProfilerStart=26,...), FAKE_COUNTERS_NO_VALUES (a grid x: ranges of it cannot be
// evaluated), FAKE_COUNTERS_RANGE_BYTES (of each range in an image), FAKE_COUNTERS_LATE (a number of a
// kernel: its first launch runs when a profiler is started, or after a while),
// FAKE_CLOCKS (a number: the status of the clocks before they are locked, 13.4),
// FAKE_COUNTERS_COLLECTIVE (a number of a kernel: one in a context ends when there is one in the
// other, too; a kernel that is counted waits for those before it), FAKE_COUNTERS_READINGS (a number:
// a launch that is replayed goes on until the fake NVML was asked so often for clocks).
#include "fake_counters.h"
#include "fake_checks.h"
#include "fake_pc_sampling.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#ifdef FAKE_BARE  // CUPTI before 12.6
#define EXPORT [[maybe_unused]] static
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace fake_counters {
namespace {

using fake_checks::refused;
using fake_checks::tell;

constexpr int kInvalidParameter = 1;
constexpr int kInvalidContext = 3;
constexpr int kInvalidOperation = 7;
constexpr int kNotInitialised = 15;
constexpr int kUnknown = 999;

constexpr int kInvalidValue = 1;  // the driver's
constexpr int kCaptureInvalidated = 901;

constexpr bool kControlsGpu = FAKE_VERSION >= 130400;  // clocks and caches
constexpr std::uint32_t kAutoRange = 1;
constexpr std::uint32_t kUserRange = 2;
constexpr std::uint32_t kKernelReplay = 2;
constexpr std::uint32_t kManyPasses = 9;

constexpr std::uint64_t kAvailabilityMagic = 0x5741'5641'494c'0001;
constexpr std::uint64_t kConfigMagic = 0x5743'4f4e'4649'0002;
constexpr std::uint64_t kDataMagic = 0x5744'4154'4100'0003;

// What an image of counters has: a head, and a place of the same size for each range.
struct Range {
  std::uint64_t kernels;
  std::uint64_t grid;     // sums
  std::uint64_t numbers;  // of kernels
  char name[40];
};
struct DataHead {
  std::uint64_t magic;
  std::uint64_t bytes;
  std::uint64_t config;
  std::uint64_t ranges;
  std::uint64_t most_ranges;
};
struct ConfigHead {
  std::uint64_t magic;
  std::uint64_t bytes;
  std::uint64_t config;
  std::uint64_t passes;
};

struct Profiler {
  std::uint64_t context;
  bool flushes_caches = false;
  bool is_configured = false;
  bool is_started = false;
  bool is_spoilt = false;  // until what was started is stopped and decoded
  bool are_passes_mixed = false;
  std::uint32_t range = 0;
  std::uint32_t replay = 0;
  const std::uint8_t* config = nullptr;
  std::size_t config_bytes = 0;
  std::uint8_t* image = nullptr;
  std::size_t image_bytes = 0;
  std::size_t most_ranges = 0;
  std::size_t passes = 0;
  std::size_t passes_made = 0;
  std::size_t at = 0;  // ranges of this pass
  std::optional<Range> pushed;
  std::vector<Range> counted;  // not decoded yet

  bool is_complete() const { return passes_made >= passes; }
};

struct Host {
  std::vector<std::string> metrics;
};

struct Capture {
  std::uint64_t context;
  std::uint64_t stream;
  bool is_invalid = false;
};

std::mutex g_lock;
bool g_is_initialised = false;
pid_t g_process = 0;
std::atomic<int> g_started{0};
std::optional<Capture> g_capture;
// Never destroyed: threads may launch until the very end.
auto& g_profilers = *new std::map<const void*, std::unique_ptr<Profiler>>;
auto& g_hosts = *new std::map<const void*, std::unique_ptr<Host>>;
auto& g_configs = *new std::vector<std::set<std::string>>;  // the metrics of each
auto& g_ended_contexts = *new std::set<std::uint64_t>;
auto& g_graph = *new std::vector<FakeLaunch>;

std::size_t range_bytes() {
  const char* text = std::getenv("FAKE_COUNTERS_RANGE_BYTES");
  return text == nullptr ? 1024 : std::max<std::size_t>(sizeof(Range), std::strtoull(text, nullptr, 10));
}

std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

bool is_context(std::uint64_t context) {
  return context != 0 && context % 0x1000 == 0 && !g_ended_contexts.contains(context);
}

// The copy of a head, whatever lies at an address.
template <class Head>
Head head_of(const std::uint8_t* image) {
  Head head{};
  if (image != nullptr) std::memcpy(&head, image, sizeof head);
  return head;
}

const ConfigHead* checked_config(const std::uint8_t* image, std::size_t bytes, ConfigHead& head) {
  head = head_of<ConfigHead>(image);
  const bool is_right =
      head.magic == kConfigMagic && head.bytes == bytes && head.config < g_configs.size();
  return is_right ? &head : nullptr;
}

bool is_data(const std::uint8_t* image, std::size_t bytes, DataHead& head) {
  head = head_of<DataHead>(image);
  return head.magic == kDataMagic && head.bytes == bytes && bytes != 0;
}

bool is_known(std::string_view metric) {
  return metric.find("__") != metric.npos && metric.find('.') != metric.npos &&
         !metric.starts_with("no__");
}

double value_of(std::string_view metric, const Range& range) {
  const auto grid = static_cast<double>(range.grid);
  if (metric == "gpu__time_duration.sum") return 1000 * grid;
  return static_cast<double>(1000 * metric.size() * range.kernels) + grid +
         static_cast<double>(range.numbers) / 64;
}

// One kernel, on the program's memory.
void execute(const FakeLaunch& launch) {
  *launch.memory += 1;
  *launch.executions += 1;
  fake_pc_sampling::run(launch);
}

// Adds a range to those of the first pass; those of later ones must be the same.
void add_range(Profiler& profiler, Range range) {
  const bool is_first = profiler.replay == kKernelReplay || profiler.passes == 1 ||
                        profiler.passes_made == 0;
  const std::size_t before = head_of<DataHead>(profiler.image).ranges;
  if (is_first) {
    if (before + profiler.counted.size() >= profiler.most_ranges) return;
    if (range.name[0] == 0) {
      std::snprintf(range.name, sizeof range.name, "%zu", before + profiler.counted.size());
    }
    profiler.counted.push_back(range);
    return;
  }
  const std::size_t at = profiler.at++;
  if (at >= profiler.most_ranges) return;
  if (at >= profiler.counted.size() || profiler.counted[at].grid != range.grid ||
      profiler.counted[at].numbers != range.numbers) {
    profiler.are_passes_mixed = true;
  }
}

void count(Profiler& profiler, const FakeLaunch& launch) {
  const Range range{1, launch.grid[0], launch.number, {}};
  if (profiler.range == kAutoRange) {
    add_range(profiler, range);
  } else if (profiler.pushed) {
    profiler.pushed->kernels += range.kernels;
    profiler.pushed->grid += range.grid;
    profiler.pushed->numbers += range.numbers;
  }
}

Profiler* started_in(std::uint64_t context) {
  for (const auto& [handle, profiler] : g_profilers) {
    if (profiler->context == context && profiler->is_started) return profiler.get();
  }
  return nullptr;
}

// Whether what CUPTI cannot replay would spoil all that a profiler has started.
bool is_spoilt_by_captures(const Profiler* profiler) {
  return profiler != nullptr && profiler->range == kAutoRange && profiler->replay != kKernelReplay;
}

void run_counted(Profiler& profiler, const FakeLaunch& launch) {
  const std::uint64_t before = *launch.memory;
  const std::size_t times = profiler.replay == kKernelReplay ? profiler.passes : 1;
  for (std::size_t pass = 0; pass < times; ++pass) {
    if (profiler.flushes_caches && profiler.replay == kKernelReplay) log_call("caches_flush", 0);
    *launch.memory = before;
    execute(launch);
  }
  count(profiler, launch);
}

template <class Parameters, class Last>
int check(const char* function, const Parameters* given, Last Parameters::*last) {
  return fake_checks::check(function, given, last, g_process);
}

template <class Parameters>
Profiler* profiler_of(const char* function, const Parameters* given) {
  const auto found = g_profilers.find(given->profiler);
  if (found != g_profilers.end()) return found->second.get();
  tell(function, "an object that is not enabled", kInvalidParameter);
  return nullptr;
}

template <class Parameters>
Host* host_of(const char* function, const Parameters* given) {
  const auto found = g_hosts.find(given->host);
  if (found != g_hosts.end()) return found->second.get();
  tell(function, "a host that is not initialised", kInvalidParameter);
  return nullptr;
}

std::size_t config_bytes(const Host& host) { return sizeof(ConfigHead) + 64 * host.metrics.size(); }

void wait_if_late(const FakeLaunch& launch) {
  static const char* const late = std::getenv("FAKE_COUNTERS_LATE");
  static std::atomic<bool> was{false};
  if (late == nullptr || std::strtoul(late, nullptr, 10) != launch.number || was.exchange(true)) return;
  for (int i = 0; i < 20 && g_started == 0; ++i) usleep(100);
}

// Kernels that end together with those of another context: by context, how many were launched.
auto& g_collectives = *new std::map<std::uint64_t, std::uint64_t>;

bool is_collective(const FakeLaunch& launch) {
  static const char* const number = std::getenv("FAKE_COUNTERS_COLLECTIVE");
  return number != nullptr && std::strtoul(number, nullptr, 10) == launch.number;
}

// With g_lock held.
bool has_ended(std::uint64_t context) {
  if (g_collectives.empty()) return true;
  const std::uint64_t own = g_collectives[context];
  return std::any_of(g_collectives.begin(), g_collectives.end(), [&](const auto& other) {
    return own == 0 || (other.first != context && other.second >= own);
  });
}

// A counted kernel runs alone, when what was launched before it has ended.
void wait_for_collectives(const FakeLaunch& launch, std::unique_lock<std::mutex>& lock) {
  static bool has_hung = false;
  if (started_in(launch.context) == nullptr) return;
  for (int i = 0; !has_ended(launch.context) && !has_hung; ++i) {
    if (i == 2000) {
      has_hung = true;
      tell("a kernel", "waits for another that nobody can launch", 0);
      return;
    }
    lock.unlock();
    usleep(1000);
    lock.lock();
  }
}

// A launch that is replayed many times takes long.
void wait_for_readings(const Profiler& profiler, std::unique_lock<std::mutex>& lock) {
  const char* wanted = std::getenv("FAKE_COUNTERS_READINGS");
  if (wanted == nullptr || profiler.replay != kKernelReplay) return;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD);
  auto* readings = library == nullptr
                       ? nullptr
                       : reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_readings"));
  lock.unlock();
  int left = 20'000;
  for (; left > 0 && readings != nullptr && readings() < std::atoi(wanted); --left) usleep(1000);
  lock.lock();
  if (left == 0 || readings == nullptr) tell("a replay", "in which no clock is read", 0);
}

void end_start(Profiler& profiler) {
  profiler.is_started = false;
  --g_started;
}

}  // namespace

int run(const FakeLaunch& launch) {
  wait_if_late(launch);
  if (g_started > 0) sched_yield();  // another thread may be sooner
  std::unique_lock lock(g_lock);
  if (launch.grid[0] == 0) return kInvalidValue;
  if (is_collective(launch)) {
    ++g_collectives[launch.context];
    if (started_in(launch.context) != nullptr) tell("a collective", "counted, which may hang", 0);
  } else {
    wait_for_collectives(launch, lock);
  }
  Profiler* profiler = started_in(launch.context);
  if (g_capture && g_capture->stream == launch.stream) {
    if (is_spoilt_by_captures(profiler)) {
      tell("a launch", "captured while counters are collected", 0);
      profiler->is_spoilt = g_capture->is_invalid = true;
    }
    if (g_capture->is_invalid) return kCaptureInvalidated;
    g_graph.push_back(launch);
    return 0;
  }
  if (profiler == nullptr) {
    execute(launch);
  } else {
    wait_for_readings(*profiler, lock);
    run_counted(*profiler, launch);
  }
  return 0;
}

int begin_capture(std::uint64_t context, std::uint64_t stream) {
  const std::lock_guard lock(g_lock);
  g_capture = Capture{context, stream};
  g_graph.clear();
  Profiler* profiler = started_in(context);
  if (is_spoilt_by_captures(profiler)) {
    tell("a capture", "begun while counters are collected", 0);
    profiler->is_spoilt = g_capture->is_invalid = true;
  }
  return 0;
}

int end_capture(std::uint64_t context, std::uint64_t stream) {
  const std::lock_guard lock(g_lock);
  if (!g_capture || g_capture->stream != stream || g_capture->context != context) {
    return kInvalidValue;
  }
  const bool is_invalid = g_capture->is_invalid;
  g_capture.reset();
  if (is_invalid) g_graph.clear();
  return is_invalid ? kCaptureInvalidated : 0;
}

bool is_capturing(std::uint64_t stream) {
  const std::lock_guard lock(g_lock);
  return g_capture && g_capture->stream == stream;
}

int launch_graph(std::uint64_t context) {
  const std::lock_guard lock(g_lock);
  Profiler* profiler = started_in(context);
  if (profiler != nullptr && profiler->range == kAutoRange) {
    tell("a graph", "launched while counters are collected", 0);
    if (profiler->replay == kKernelReplay) return 0;  // and is not executed
    profiler->is_spoilt = true;
  }
  for (const FakeLaunch& launch : g_graph) {
    execute(launch);
    if (profiler != nullptr) count(*profiler, launch);
  }
  return 0;
}

void begin_context(std::uint64_t context) {
  const std::lock_guard lock(g_lock);
  g_ended_contexts.erase(context);
}

void end_context(std::uint64_t context) {
  const std::lock_guard lock(g_lock);
  std::erase_if(g_profilers, [context](const auto& entry) {
    Profiler& profiler = *entry.second;
    if (profiler.context != context) return false;
    if (profiler.is_started) {
      tell("a context", "ended while counters are collected", 0);
      end_start(profiler);
    }
    return true;
  });
  g_ended_contexts.insert(context);
}

void end_stream(std::uint64_t stream) {
  const std::lock_guard lock(g_lock);
  if (g_capture && g_capture->stream == stream) g_capture.reset();
}

bool is_enabled() {
  const std::lock_guard lock(g_lock);
  return !g_profilers.empty();
}

}  // namespace fake_counters

using namespace fake_counters;

namespace {

// Parameters as of CUPTI 12.6.
struct InitializeParameters {
  std::size_t bytes;
  void* reserved;
};
struct AvailabilityParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t image_bytes;
  std::uint8_t* image;
};
struct ChipParameters {
  std::size_t bytes;
  void* reserved;
  std::size_t device;
  const char* name;
};
struct HostInitParameters {
  std::size_t bytes;
  void* reserved;
  std::uint32_t type;
  const char* chip;
  const std::uint8_t* availability;
  void* host;
};
struct HostParameters {
  std::size_t bytes;
  void* reserved;
  void* host;
};
struct AddParameters {
  std::size_t bytes;
  void* reserved;
  void* host;
  const char** names;
  std::size_t count;
};
struct ConfigSizeParameters {
  std::size_t bytes;
  void* reserved;
  void* host;
  std::size_t image_bytes;
};
struct ConfigParameters {
  std::size_t bytes;
  void* reserved;
  void* host;
  std::size_t image_bytes;
  std::uint8_t* image;
};
struct PassesParameters {
  std::size_t bytes;
  void* reserved;
  std::size_t image_bytes;
  std::uint8_t* image;
  std::size_t passes;
};
struct EvaluateParameters {
  std::size_t bytes;
  void* reserved;
  void* host;
  const std::uint8_t* image;
  std::size_t image_bytes;
  std::size_t range;
  const char** names;
  std::size_t count;
  double* values;
};
struct EnableParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
  void* profiler;
  std::uint32_t caches;  // since 13.4
};
struct ProfilerParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
};
struct SetConfigParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t config_bytes;
  const std::uint8_t* config;
  std::size_t image_bytes;
  std::uint8_t* image;
  std::uint32_t range;
  std::uint32_t replay;
  std::size_t most_ranges;
  std::uint16_t nesting_levels;
  std::uint16_t min_nesting_level;
  std::size_t pass;
  std::uint16_t target_nesting_level;
};
struct StopParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t pass;
  std::size_t nesting_level;
  std::uint8_t is_complete;
};
struct PushParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  const char* name;
};
struct DecodeParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t dropped;
};
struct DataSizeParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  const char** names;
  std::size_t count;
  std::size_t most_ranges;
  std::uint32_t most_nodes;
  std::size_t image_bytes;
};
struct DataInitParameters {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t image_bytes;
  std::uint8_t* image;
};
struct DataInfoParameters {
  std::size_t bytes;
  void* reserved;
  const std::uint8_t* image;
  std::size_t image_bytes;
  std::size_t ranges;
};
struct RangeInfoParameters {
  std::size_t bytes;
  void* reserved;
  const std::uint8_t* image;
  std::size_t image_bytes;
  std::size_t range;
  const char* delimiter;
  const char* name;
};

}  // namespace

EXPORT int cuptiProfilerInitialize(InitializeParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &InitializeParameters::reserved);
  if (result != 0) return result;
  g_is_initialised = true;
  g_process = getpid();
  return 0;
}

EXPORT int cuptiProfilerGetCounterAvailability(AvailabilityParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &AvailabilityParameters::image);
  if (result != 0) return result;
  if (!g_is_initialised) return tell(__func__, "before cuptiProfilerInitialize", kNotInitialised);
  if (!is_context(number_of(given->context))) return tell(__func__, "no context", kInvalidContext);
  constexpr std::size_t bytes = 256;
  if (given->image == nullptr) {
    given->image_bytes = bytes;
    return 0;
  }
  if (given->image_bytes < bytes) return tell(__func__, "an image too small", kInvalidParameter);
  std::memset(given->image, 0, bytes);
  std::memcpy(given->image, &kAvailabilityMagic, sizeof kAvailabilityMagic);
  given->image_bytes = bytes;
  return 0;
}

EXPORT int cuptiDeviceGetChipName(ChipParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &ChipParameters::name);
  if (result != 0) return result;
  if (given->device > 1) return tell(__func__, "no such device", kInvalidParameter);
  given->name = "GH100";
  return 0;
}

// The devices of contexts take turns: 0x1000 is of the first, 0x2000 of the second.
EXPORT int cuptiGetDeviceId(void* context, std::uint32_t* device) {
  const std::lock_guard lock(g_lock);
  if (const int result = refused(__func__)) return result;
  if (!is_context(number_of(context))) return tell(__func__, "no context", kInvalidContext);
  *device = static_cast<std::uint32_t>(number_of(context) / 0x1000 + 1) % 2;
  return 0;
}

EXPORT int cuptiProfilerHostInitialize(HostInitParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &HostInitParameters::host);
  if (result != 0) return result;
  const bool is_right = given->type == 0 && given->chip != nullptr &&
                        std::string_view(given->chip) == "GH100" &&
                        (given->availability == nullptr ||
                         head_of<std::uint64_t>(given->availability) == kAvailabilityMagic);
  if (!is_right) return tell(__func__, "another chip, or no image", kInvalidParameter);
  auto host = std::make_unique<Host>();
  given->host = host.get();
  g_hosts[host.get()] = std::move(host);
  return 0;
}

EXPORT int cuptiProfilerHostDeinitialize(HostParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &HostParameters::host);
  if (result != 0) return result;
  if (host_of(__func__, given) == nullptr) return kInvalidParameter;
  g_hosts.erase(given->host);
  return 0;
}

EXPORT int cuptiProfilerHostConfigAddMetrics(AddParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &AddParameters::count);
  if (result != 0) return result;
  Host* host = host_of(__func__, given);
  if (host == nullptr || given->count == 0) return kInvalidParameter;
  if (!std::all_of(given->names, given->names + given->count, is_known)) return kInvalidParameter;
  host->metrics.insert(host->metrics.end(), given->names, given->names + given->count);
  return 0;
}

EXPORT int cuptiProfilerHostGetConfigImageSize(ConfigSizeParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &ConfigSizeParameters::image_bytes);
  if (result != 0) return result;
  const Host* host = host_of(__func__, given);
  if (host == nullptr) return kInvalidParameter;
  if (host->metrics.empty()) return tell(__func__, "no metrics", kInvalidOperation);
  given->image_bytes = config_bytes(*host);
  return 0;
}

EXPORT int cuptiProfilerHostGetConfigImage(ConfigParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &ConfigParameters::image);
  if (result != 0) return result;
  const Host* host = host_of(__func__, given);
  if (host == nullptr) return kInvalidParameter;
  if (host->metrics.empty()) return tell(__func__, "no metrics", kInvalidOperation);
  if (given->image == nullptr || given->image_bytes != config_bytes(*host)) {
    return tell(__func__, "an image of another size", kInvalidParameter);
  }
  const bool is_one = std::none_of(
      host->metrics.begin(), host->metrics.end(),
      [](const std::string& metric) { return metric.find("_throughput") != metric.npos; });
  const ConfigHead head{kConfigMagic, given->image_bytes, g_configs.size(),
                        is_one ? 1 : kManyPasses};
  g_configs.emplace_back(host->metrics.begin(), host->metrics.end());
  std::memset(given->image, 0, given->image_bytes);
  std::memcpy(given->image, &head, sizeof head);
  return 0;
}

EXPORT int cuptiProfilerHostGetNumOfPasses(PassesParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &PassesParameters::passes);
  if (result != 0) return result;
  ConfigHead head;
  if (checked_config(given->image, given->image_bytes, head) == nullptr) {
    return tell(__func__, "no configuration", kInvalidParameter);
  }
  given->passes = head.passes;
  return 0;
}

EXPORT int cuptiProfilerHostEvaluateToGpuValues(EvaluateParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &EvaluateParameters::values);
  if (result != 0) return result;
  if (host_of(__func__, given) == nullptr) return kInvalidParameter;
  DataHead head;
  if (!is_data(given->image, given->image_bytes, head) || given->range >= head.ranges) {
    return tell(__func__, "no such range, or no image of counters", kInvalidParameter);
  }
  Range range;
  std::memcpy(&range, given->image + sizeof head + given->range * range_bytes(), sizeof range);
  const char* failing = std::getenv("FAKE_COUNTERS_NO_VALUES");
  if (failing != nullptr && std::strtoull(failing, nullptr, 10) == range.grid) return kUnknown;
  for (std::size_t i = 0; i < given->count; ++i) {
    if (!g_configs[head.config].contains(given->names[i])) {
      return tell(__func__, "a metric that was not counted", kInvalidParameter);
    }
    given->values[i] = value_of(given->names[i], range);
  }
  return 0;
}

EXPORT int cuptiRangeProfilerEnable(EnableParameters* given) {
  const std::lock_guard lock(g_lock);
  const bool has_caches =
      kControlsGpu && given->bytes == offsetof(EnableParameters, caches) + sizeof given->caches;
  const int result = has_caches ? check(__func__, given, &EnableParameters::caches)
                                : check(__func__, given, &EnableParameters::profiler);
  if (result != 0) return result;
  if (has_caches && given->caches > 2) return tell(__func__, "a mode of caches", kInvalidParameter);
  if (!g_is_initialised) return tell(__func__, "before cuptiProfilerInitialize", kNotInitialised);
  const std::uint64_t context = number_of(given->context);
  if (!is_context(context)) return tell(__func__, "no context", kInvalidContext);
  for (const auto& [handle, other] : g_profilers) {
    if (other->context == context) return tell(__func__, "it is", kInvalidOperation);
  }
  auto profiler = std::make_unique<Profiler>();
  profiler->context = context;
  profiler->flushes_caches = has_caches && given->caches != 0;
  given->profiler = profiler.get();
  g_profilers[profiler.get()] = std::move(profiler);
  return 0;
}

EXPORT int cuptiRangeProfilerDisable(ProfilerParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &ProfilerParameters::profiler);
  if (result != 0) return result;
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  if (profiler->is_started) return tell(__func__, "it is started", kInvalidOperation);
  if (!profiler->counted.empty() && profiler->is_complete()) {
    tell(__func__, "what was counted is not decoded", 0);
  }
  g_profilers.erase(given->profiler);
  return 0;
}

EXPORT int cuptiRangeProfilerGetCounterDataSize(DataSizeParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &DataSizeParameters::image_bytes);
  if (result != 0) return result;
  if (profiler_of(__func__, given) == nullptr) return kInvalidParameter;
  if (given->count == 0 || given->most_ranges == 0 || given->most_nodes < given->most_ranges ||
      !std::all_of(given->names, given->names + given->count, is_known)) {
    return tell(__func__, "metrics or ranges", kInvalidParameter);
  }
  given->image_bytes = sizeof(DataHead) + given->most_ranges * range_bytes();
  return 0;
}

EXPORT int cuptiRangeProfilerCounterDataImageInitialize(DataInitParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &DataInitParameters::image);
  if (result != 0) return result;
  if (profiler_of(__func__, given) == nullptr) return kInvalidParameter;
  if (given->image == nullptr || given->image_bytes < sizeof(DataHead) + range_bytes()) {
    return tell(__func__, "an image too small", kInvalidParameter);
  }
  const DataHead head{kDataMagic, given->image_bytes, g_configs.size(), 0,
                      (given->image_bytes - sizeof head) / range_bytes()};
  std::memcpy(given->image, &head, sizeof head);
  return 0;
}

EXPORT int cuptiRangeProfilerSetConfig(SetConfigParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &SetConfigParameters::target_nesting_level);
  if (result != 0) return result;
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  if (profiler->is_started) return tell(__func__, "it is started", kInvalidOperation);
  if (!profiler->counted.empty() && profiler->is_complete()) {
    return tell(__func__, "what was counted is not decoded", kInvalidOperation);
  }
  const bool is_auto = given->range == kAutoRange;
  if (!is_auto && given->range != kUserRange) return kInvalidParameter;
  if (!is_auto && given->replay == kKernelReplay) return kInvalidOperation;  // as CUPTI has it
  ConfigHead config;
  if (checked_config(given->config, given->config_bytes, config) == nullptr) {
    return tell(__func__, "no configuration", kInvalidParameter);
  }
  DataHead data;
  if (!is_data(given->image, given->image_bytes, data)) {
    return tell(__func__, "an image that is not initialised", kInvalidParameter);
  }
  const bool is_one_level = given->nesting_levels == 1 && given->min_nesting_level == 1 &&
                            given->target_nesting_level == 1 && given->pass == 0;
  if (!is_one_level || given->replay < 1 || given->replay > 3 || given->most_ranges == 0) {
    return tell(__func__, "levels, replay or ranges", kInvalidParameter);
  }
  data.config = config.config;
  std::memcpy(given->image, &data, sizeof data);
  profiler->is_configured = true;
  profiler->range = given->range;
  profiler->replay = given->replay;
  profiler->config = given->config;
  profiler->config_bytes = given->config_bytes;
  profiler->image = given->image;
  profiler->image_bytes = given->image_bytes;
  profiler->most_ranges = std::min<std::size_t>(given->most_ranges, data.most_ranges);
  profiler->passes = config.passes;
  profiler->passes_made = 0;
  profiler->is_spoilt = profiler->are_passes_mixed = false;
  profiler->counted.clear();  // passes that were given up
  return 0;
}

EXPORT int cuptiRangeProfilerStart(ProfilerParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &ProfilerParameters::profiler);
  if (result != 0) return result;
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  if (!profiler->is_configured) return tell(__func__, "it is not configured", kInvalidOperation);
  if (profiler->is_started) return tell(__func__, "it is started", kInvalidOperation);
  ConfigHead config;
  DataHead data;
  if (checked_config(profiler->config, profiler->config_bytes, config) == nullptr ||
      !is_data(profiler->image, profiler->image_bytes, data)) {
    return tell(__func__, "its images are gone", kInvalidOperation);
  }
  profiler->is_started = true;
  profiler->at = 0;
  ++g_started;
  if (is_spoilt_by_captures(profiler) && g_capture && g_capture->context == profiler->context) {
    tell(__func__, "while a stream is captured", 0);
    profiler->is_spoilt = g_capture->is_invalid = true;
  }
  log_call("counters_start", profiler->replay);
  return 0;
}

EXPORT int cuptiRangeProfilerStop(StopParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &StopParameters::is_complete);
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  if (!profiler->is_started) return tell(__func__, "it is not started", kInvalidOperation);
  if (profiler->pushed) return tell(__func__, "a range is open", kInvalidOperation);
  end_start(*profiler);
  log_call("counters_stop", profiler->replay);
  if (profiler->is_spoilt || result != 0) {
    profiler->counted.clear();
    return result != 0 ? result : kUnknown;
  }
  const bool is_later_pass = profiler->passes > 1 && profiler->replay != kKernelReplay &&
                             profiler->passes_made > 0;
  if (is_later_pass && profiler->at != profiler->counted.size()) profiler->are_passes_mixed = true;
  profiler->passes_made += profiler->replay == kKernelReplay ? profiler->passes : 1;
  given->is_complete = profiler->is_complete() ? 1 : 0;
  return 0;
}

EXPORT int cuptiRangeProfilerPushRange(PushParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &PushParameters::name);
  if (result != 0) return result;
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  const bool may_be = profiler->is_started && profiler->range == kUserRange && !profiler->pushed;
  if (!may_be) return tell(__func__, "not started, no user range, or one is open", kInvalidOperation);
  if (given->name == nullptr) return tell(__func__, "no name", kInvalidParameter);
  profiler->pushed.emplace();
  std::snprintf(profiler->pushed->name, sizeof profiler->pushed->name, "%s", given->name);
  return 0;
}

EXPORT int cuptiRangeProfilerPopRange(ProfilerParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &ProfilerParameters::profiler);
  if (result != 0) return result;
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  if (!profiler->is_started || !profiler->pushed) {
    return tell(__func__, "no range is open", kInvalidOperation);
  }
  add_range(*profiler, *profiler->pushed);
  profiler->pushed.reset();
  return 0;
}

EXPORT int cuptiRangeProfilerDecodeData(DecodeParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &DecodeParameters::dropped);
  Profiler* profiler = profiler_of(__func__, given);
  if (profiler == nullptr) return kInvalidParameter;
  if (result != 0) {
    profiler->counted.clear();
    return result;
  }
  if (!profiler->is_configured || profiler->is_started) {
    return tell(__func__, "it is started, or not configured", kInvalidOperation);
  }
  if (profiler->is_spoilt) {
    profiler->is_spoilt = false;
    return kUnknown;
  }
  if (!profiler->is_complete() && !profiler->counted.empty()) {
    return tell(__func__, "passes are missing", kInvalidOperation);
  }
  if (profiler->are_passes_mixed) tell(__func__, "passes of other launches", 0);
  DataHead head;
  if (!is_data(profiler->image, profiler->image_bytes, head)) {
    return tell(__func__, "its image is gone", kInvalidOperation);
  }
  for (const Range& range : profiler->counted) {
    std::memcpy(profiler->image + sizeof head + head.ranges++ * range_bytes(), &range, sizeof range);
  }
  std::memcpy(profiler->image, &head, sizeof head);
  profiler->counted.clear();
  given->dropped = 0;  // also when launches were beyond the last range
  return 0;
}

EXPORT int cuptiRangeProfilerGetCounterDataInfo(DataInfoParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &DataInfoParameters::ranges);
  if (result != 0) return result;
  DataHead head;
  if (!is_data(given->image, given->image_bytes, head)) {
    return tell(__func__, "no image of counters", kInvalidParameter);
  }
  given->ranges = head.ranges;
  return 0;
}

EXPORT int cuptiRangeProfilerCounterDataGetRangeInfo(RangeInfoParameters* given) {
  const std::lock_guard lock(g_lock);
  const int result = check(__func__, given, &RangeInfoParameters::name);
  if (result != 0) return result;
  DataHead head;
  if (!is_data(given->image, given->image_bytes, head) || given->range >= head.ranges) {
    return tell(__func__, "no such range, or no image of counters", kInvalidParameter);
  }
  if (given->delimiter == nullptr) return tell(__func__, "no delimiter", kInvalidParameter);
  const std::uint8_t* range = given->image + sizeof head + given->range * range_bytes();
  given->name = reinterpret_cast<const char*>(range + offsetof(Range, name));
  return 0;
}

#if FAKE_VERSION >= 130400
namespace {

std::uint64_t g_clock_context = 0;  // that has locked the clocks; 0: none
pid_t g_clock_process = 0;

bool is_enabled_in(std::uint64_t context) {
  return std::any_of(g_profilers.begin(), g_profilers.end(),
                     [context](const auto& each) { return each.second->context == context; });
}

}  // namespace

EXPORT int cuptiClockControlGetStatus(void* context, std::uint32_t* status) {
  const std::lock_guard lock(g_lock);
  if (const int result = refused(__func__)) return result;
  if (!is_context(number_of(context)) || status == nullptr) {
    return tell(__func__, "no context, or no status", kInvalidParameter);
  }
  const char* before = std::getenv("FAKE_CLOCKS");
  *status = before != nullptr ? static_cast<std::uint32_t>(std::atoi(before)) : 1;
  if (g_clock_context != 0) *status = 2;
  return 0;
}

EXPORT int cuptiClockControlLock(void* context, std::uint32_t mode) {
  const std::lock_guard lock(g_lock);
  if (const int result = refused(__func__)) return result;
  const std::uint64_t number = number_of(context);
  if (!is_context(number)) return tell(__func__, "no context", kInvalidParameter);
  if (mode != 1 && mode != 2) return tell(__func__, "an unknown mode", kInvalidParameter);
  if (g_clock_context != 0) return tell(__func__, "they are", 0);  // as CUPTI has it: no second lock
  if (is_enabled_in(number)) return tell(__func__, "after the profiler was enabled", 0);
  g_clock_context = number;
  g_clock_process = getpid();
  log_call("clocks_lock", mode);
  return 0;
}

EXPORT int cuptiClockControlUnlock() {
  const std::lock_guard lock(g_lock);
  if (const int result = refused(__func__)) return result;
  if (g_clock_context == 0) return tell(__func__, "they are not locked", 0);
  if (g_clock_process != getpid()) return tell(__func__, "in a forked process", kUnknown);
  if (is_enabled_in(g_clock_context)) tell(__func__, "before the profiler was disabled", 0);
  if (!is_context(g_clock_context)) tell(__func__, "after its context", 0);
  g_clock_context = 0;
  log_call("clocks_unlock", 0);
  return 0;
}
#endif
