// Sampling of program counters as strict as NVIDIA documents it.
//
// What a caller does wrong is told on standard error, as by the range profiler of the fake.
//
// A launch of kernel k with a grid of g adds to three of its instructions, at 0, 16 and 32: to the j-th
// g * (j + 1) samples that wait for long_scoreboard, in g * j of which nothing was issued, and g selected
// ones. Kernels from 7000 on have 40000 instructions. Kernel k is in module k / 10; its image is an ELF file
// without code, in which "cubin" and the number follow the headers. Its checksum is 0xC0DE0000 + the number.
//
// The environment sets it up: FAKE_COUNTERS_REFUSE (results of functions), FAKE_PC_DROPPED and
// FAKE_PC_NON_USER (samples of each kind, with each launch), FAKE_PC_FULL (once, the buffer of the GPU is
// full), FAKE_CUBIN_BYTES (of an image), FAKE_CUBIN (a file that is the image of module 0),
// FAKE_PC_HANGS (the end of sampling never returns).
#include "fake_pc_sampling.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_checks.h"
#include "fake_counters.h"

#ifdef FAKE_BARE
#define EXPORT [[maybe_unused]] static
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace fake_pc_sampling {
namespace {

using fake_checks::kInvalidParameter;
using fake_checks::tell;

constexpr int kInvalidOperation = 7;
constexpr int kOutOfMemory = 8;
constexpr std::uint64_t kChecksums = 0xC0DE0000;
constexpr std::uint32_t kManyFrom = 7000;
constexpr std::size_t kRoom = 16384;  // instructions that a buffer has room for, at least

// Indexes have gaps, and are in no order.
struct Reason {
  std::uint32_t index;
  const char* name;
};
constexpr Reason kReasons[] = {
    {7, "smsp__pcsamp_warps_issue_stalled_long_scoreboard"},
    {3, "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued"},
    {0, "smsp__pcsamp_warps_issue_stalled_selected"},
    {1, "smsp__pcsamp_warps_issue_stalled_selected_not_issued"},
    {5, "smsp__pcsamp_warps_issue_stalled_wait"},
};

struct StallSamples {
  std::uint32_t index;
  std::uint32_t samples;
};
struct Pc {
  std::size_t bytes;
  std::uint64_t checksum;
  std::uint64_t offset;
  std::uint32_t function_index;
  std::uint32_t padding;
  char* function;
  std::size_t stall_count;
  StallSamples* stalls;
  std::uint32_t correlation;
};
struct Data {
  std::size_t bytes;
  std::size_t capacity;
  std::uint64_t total;
  std::uint64_t dropped;
  std::size_t count;
  std::size_t remaining;
  std::uint64_t range;
  Pc* pcs;
  std::uint64_t non_user;
  std::uint8_t is_full;
};
static_assert(sizeof(Pc) == 64 && sizeof(Data) == 80);

struct Place {
  std::uint64_t module;
  std::string function;
  std::uint64_t offset;
  auto operator<=>(const Place&) const = default;
};

struct Context {
  bool is_enabled = false;
  bool is_configured = false;
  Data* rest = nullptr;
  Pc* worker = nullptr;  // where the thread of CUPTI writes, from the configuration to the end
  std::map<Place, std::map<std::uint32_t, std::uint32_t>> samples;  // by index of the reason
  std::uint64_t dropped = 0;
  std::uint64_t non_user = 0;
};

std::mutex g_lock;
std::mutex g_coming;  // a context or module is: others wait, as the driver has it
pid_t g_process = 0;
bool g_is_full = std::getenv("FAKE_PC_FULL") != nullptr;
// Never destroyed: threads may launch until the very end.
auto& g_contexts = *new std::map<std::uint64_t, Context>;
auto& g_begun = *new std::set<std::uint64_t>;
auto& g_loaded = *new std::set<std::pair<std::uint64_t, std::uint64_t>>;  // context, module
auto& g_names = *new std::set<std::string>;  // that records point to

std::uint64_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::uint64_t module_of(const FakeLaunch& launch) { return launch.number / 10; }

constexpr std::uint8_t kHeaders = 128;  // bytes: of the file, and of a section

std::string image_of(std::uint64_t module) {
  if (const char* path = std::getenv("FAKE_CUBIN"); path != nullptr && module == 0) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string image(kHeaders + 1, '\0');
  const auto put = [&image](std::size_t at, std::uint8_t byte) { image[at] = static_cast<char>(byte); };
  image.replace(0, 7, "\x7f" "ELF\x02\x01\x01");
  put(40, 64);   // where section headers are,
  put(58, 64);   // their size,
  put(60, 1);    // and how many: one,
  put(68, 3);    // of names,
  put(88, kHeaders);
  put(96, 1);    // which are empty
  image += "cubin " + std::to_string(module) + "\n";
  image.resize(std::max<std::size_t>(image.size(), number_of("FAKE_CUBIN_BYTES")), '.');
  return image;
}

void call_back_module(std::uint32_t id, std::uint64_t context, std::uint64_t module) {
  const std::string image = image_of(module);
  struct {
    std::uint32_t number;
    std::size_t bytes;
    const char* image;
  } data = {static_cast<std::uint32_t>(module), image.size(), image.data()};
  call_back_resource(id, context, &data);
}

bool is_buffer(const char* function, const Data* data) {
  if (data == nullptr || data->bytes != sizeof(Data) || data->capacity == 0 || data->pcs == nullptr) {
    tell(function, "no buffer", 0);
    return false;
  }
  for (std::size_t i = 0; i < data->capacity; ++i) {
    if (data->pcs[i].bytes == sizeof(Pc) && data->pcs[i].stalls != nullptr) continue;
    tell(function, "a buffer without room for stall reasons", 0);
    return false;
  }
  return true;
}

// Moves as many samples as there is room for.
void fill(Context& context, Data& data) {
  data.count = 0;
  data.total = data.dropped = std::exchange(context.dropped, 0);
  data.non_user = std::exchange(context.non_user, 0);
  data.total += data.non_user;
  while (!context.samples.empty() && data.count < data.capacity) {
    const auto& [place, counts] = *context.samples.begin();
    Pc& pc = data.pcs[data.count++];
    pc.checksum = kChecksums + place.module;
    pc.offset = place.offset;
    pc.function = const_cast<char*>(g_names.insert(place.function).first->c_str());
    pc.stall_count = 0;
    for (const auto& [index, samples] : counts) {
      pc.stalls[pc.stall_count++] = {index, samples};
      if (index == 0 || index == 7) data.total += samples;
    }
    context.samples.erase(context.samples.begin());
  }
  data.remaining = context.samples.size();
}

template <class Parameters, class Last>
int check(const char* function, const Parameters* given, Last Parameters::*last) {
  if (g_process == 0) g_process = getpid();
  return fake_checks::check(function, given, last, g_process);
}

template <class Parameters>
Context* context_of(const char* function, const Parameters* given, bool is_enabled) {
  const auto number = reinterpret_cast<std::uintptr_t>(given->context);
  if (number == 0x1000 || number == 0x2000) g_begun.insert(number);  // primary: always there
  if (!g_begun.contains(number)) {
    tell(function, "no context", 0);
    return nullptr;
  }
  Context& context = g_contexts[number];
  if (context.is_enabled == is_enabled) return &context;
  tell(function, is_enabled ? "it is not enabled" : "it is enabled", 0);
  return nullptr;
}

}  // namespace

void run(const FakeLaunch& launch) {
  const std::lock_guard lock(g_lock);
  const auto found = g_contexts.find(launch.context);
  if (found == g_contexts.end() || !found->second.is_configured) return;
  Context& context = found->second;
  const std::uint64_t instructions = launch.number >= kManyFrom ? 40000 : 3;
  for (std::uint64_t j = 0; j < instructions; ++j) {
    auto& counts = context.samples[{module_of(launch), launch.symbol, 16 * j}];
    const auto times = static_cast<std::uint32_t>(j % 3);
    counts[7] += launch.grid[0] * (times + 1);
    counts[3] += launch.grid[0] * times;
    counts[0] += launch.grid[0];
  }
  for (std::size_t i = 0; i < kRoom; i += 64) context.worker[i].bytes = sizeof(Pc);  // it is there still
  context.dropped += number_of("FAKE_PC_DROPPED");
  context.non_user += number_of("FAKE_PC_NON_USER");
}

void load_for(const FakeLaunch& launch) {
  begin_context(launch.context);
  const std::lock_guard coming(g_coming);
  {
    const std::lock_guard lock(g_lock);
    if (!g_loaded.insert({launch.context, module_of(launch)}).second) return;
  }
  call_back_module(6, launch.context, module_of(launch));
}

void unload(std::uint64_t context, std::uint64_t module) {
  call_back_module(7, context, module);
  const std::lock_guard lock(g_lock);
  g_loaded.erase({context, module});
  const std::size_t lost = std::erase_if(g_contexts[context].samples, [module](const auto& entry) {
    return entry.first.module == module;
  });
  if (lost != 0) tell("a module", "unloaded before its samples were taken", 0);
}

void begin_context(std::uint64_t context) {
  const std::lock_guard coming(g_coming);
  {
    const std::lock_guard lock(g_lock);
    if (!g_begun.insert(context).second) return;
  }
  fake_counters::begin_context(context);
  call_back_resource(1, context, nullptr);
}

void end_context(std::uint64_t context) {
  const std::lock_guard lock(g_lock);
  if (g_contexts[context].is_enabled) tell("a context", "ended while it is sampled", 0);
  g_contexts.erase(context);
  g_begun.erase(context);
  std::erase_if(g_loaded, [context](const auto& loaded) { return loaded.first == context; });
}

}  // namespace fake_pc_sampling

using namespace fake_pc_sampling;

namespace {

struct ContextParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
};
struct CountParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t* count;
};
struct ReasonParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t count;
  std::uint32_t* indexes;
  char** names;
};
struct Setting {
  std::uint32_t setting;
  std::int32_t status;
  union {
    std::uint64_t words[3];
    std::uint32_t number;
    std::size_t size;
    Data* buffer;
    struct {
      std::size_t count;
      std::uint32_t* indexes;
    } reasons;
  };
};
struct ConfigParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t count;
  Setting* settings;
};
struct DataParameters {
  std::size_t bytes;
  void* reserved;
  void* context;
  Data* data;
};
struct ChecksumParameters {
  std::size_t bytes;
  std::size_t image_bytes;
  const char* image;
  std::uint64_t checksum;
};

bool is_right(const Setting& setting) {
  switch (setting.setting) {
    case 1: return setting.number >= 5 && setting.number <= 31;
    case 2:
      return setting.reasons.count == std::size(kReasons) &&
             std::all_of(setting.reasons.indexes, setting.reasons.indexes + setting.reasons.count,
                         [](std::uint32_t index) {
                           return std::any_of(
                               std::begin(kReasons), std::end(kReasons),
                               [index](const Reason& reason) { return reason.index == index; });
                         });
    case 3:
    case 4: return setting.size >= 1u << 20;
    case 5: return setting.number == 1;
    case 6: return setting.number == 0;
    case 8: return is_buffer("a setting", setting.buffer);
    case 9: return setting.number != 0;
    default: return false;
  }
}

}  // namespace

EXPORT int cuptiPCSamplingEnable(ContextParameters* given) {
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &ContextParameters::context)) return result;
  Context* context = context_of(__func__, given, false);
  if (context == nullptr) return kInvalidParameter;
  *context = {};
  context->is_enabled = true;
  return 0;
}

EXPORT int cuptiPCSamplingDisable(ContextParameters* given) {
  static const bool hangs = std::getenv("FAKE_PC_HANGS") != nullptr;
  if (hangs) pause();
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &ContextParameters::context)) return result;
  Context* context = context_of(__func__, given, true);
  if (context == nullptr) return kInvalidParameter;
  context->is_enabled = false;
  if (!std::exchange(context->is_configured, false)) return 0;
  if (!is_buffer(__func__, context->rest)) return kInvalidOperation;
  fill(*context, *context->rest);
  if (context->rest->remaining != 0) tell(__func__, "the rest has no room", 0);
  return 0;
}

EXPORT int cuptiPCSamplingGetNumStallReasons(CountParameters* given) {
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &CountParameters::count)) return result;
  if (context_of(__func__, given, true) == nullptr) return kInvalidParameter;
  *given->count = std::size(kReasons);
  return 0;
}

EXPORT int cuptiPCSamplingGetStallReasons(ReasonParameters* given) {
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &ReasonParameters::names)) return result;
  if (context_of(__func__, given, true) == nullptr) return kInvalidParameter;
  if (given->count != std::size(kReasons)) return tell(__func__, "another count", kInvalidParameter);
  for (std::size_t i = 0; i < given->count; ++i) {
    given->indexes[i] = kReasons[i].index;
    std::memset(given->names[i], '?', 127);
    std::snprintf(given->names[i], 128, "%s", kReasons[i].name);
  }
  return 0;
}

EXPORT int cuptiPCSamplingSetConfigurationAttribute(ConfigParameters* given) {
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &ConfigParameters::settings)) return result;
  Context* context = context_of(__func__, given, true);
  if (context == nullptr) return kInvalidParameter;
  if (context->is_configured) return tell(__func__, "it is configured", kInvalidOperation);
  for (std::size_t i = 0; i < given->count; ++i) {
    Setting& setting = given->settings[i];
    setting.status = is_right(setting) ? 0 : kInvalidOperation;
    if (setting.status != 0) return tell(__func__, "a wrong setting", kInvalidOperation);
    if (setting.setting == 8) context->rest = setting.buffer;
  }
  if (context->rest == nullptr) return tell(__func__, "no buffer for the rest", kInvalidOperation);
  context->worker = context->rest->pcs;
  if (context->rest->capacity < kRoom) return tell(__func__, "a small buffer", kInvalidOperation);
  context->is_configured = true;
  return 0;
}

EXPORT int cuptiPCSamplingGetData(DataParameters* given) {
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &DataParameters::data)) return result;
  Context* context = context_of(__func__, given, true);
  if (context == nullptr) return kInvalidOperation;
  if (!context->is_configured) return tell(__func__, "it is not configured", kInvalidOperation);
  if (!is_buffer(__func__, given->data)) return kInvalidParameter;
  if (given->data == context->rest) tell(__func__, "the buffer for the rest", 0);
  fill(*context, *given->data);
  if (!std::exchange(g_is_full, false)) return 0;
  given->data->is_full = 1;
  return kOutOfMemory;
}

EXPORT int cuptiGetCubinCrc(ChecksumParameters* given) {
  const std::lock_guard lock(g_lock);
  if (const int result = check(__func__, given, &ChecksumParameters::checksum)) return result;
  constexpr std::size_t kText = kHeaders + 1;
  if (given->image_bytes < kText + 7) return tell(__func__, "no cubin", kInvalidParameter);
  const char* text = given->image + kText;
  const bool is_ours = std::memcmp(text, "cubin ", 6) == 0;
  given->checksum = kChecksums + (is_ours ? std::strtoull(text + 6, nullptr, 10) : 0);
  return 0;
}

#ifndef FAKE_BARE
extern "C" __attribute__((visibility("default"))) void fake_begin_context(std::uint64_t context) {
  fake_pc_sampling::begin_context(context);
}
extern "C" __attribute__((visibility("default"))) void fake_unload(std::uint64_t context,
                                                                   std::uint64_t module) {
  fake_pc_sampling::unload(context, module);
}
#else
extern "C" __attribute__((visibility("default"))) void fake_begin_context(std::uint64_t) {}
extern "C" __attribute__((visibility("default"))) void fake_unload(std::uint64_t, std::uint64_t) {}
#endif
