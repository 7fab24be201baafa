#include "session/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

namespace warpline::agent {
namespace {

constexpr std::string_view kDefaultDomain = "default";
constexpr std::uint64_t kMinBlockBytes = 128u << 10;  // holds the largest record
constexpr std::uint64_t kMaxBlockBytes = 64u << 20;
constexpr std::size_t kMaxConfigBytes = 1u << 20;
constexpr std::uint64_t kMinCudaBufferBytes = 64u << 10;
constexpr std::uint64_t kMaxCudaBuffers = 1024;

int digit_of(char symbol) {
  if (symbol >= '0' && symbol <= '9') return symbol - '0';
  if (symbol >= 'a' && symbol <= 'f') return symbol - 'a' + 10;
  if (symbol >= 'A' && symbol <= 'F') return symbol - 'A' + 10;
  return -1;
}

std::string decode(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape = text[at] == '%' && at + 2 < text.size() &&
                           digit_of(text[at + 1]) >= 0 && digit_of(text[at + 2]) >= 0;
    if (is_escape) {
      plain += static_cast<char>(digit_of(text[at + 1]) * 16 + digit_of(text[at + 2]));
      at += 2;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

std::uint64_t number(const std::string& text, std::uint64_t otherwise) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::int64_t duration_ns(const std::string& text, std::int64_t otherwise) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 60;
  const std::uint64_t value = number(text, kLongest + 1);
  return value <= kLongest ? static_cast<std::int64_t>(value) : otherwise;
}

struct CudaSwitch {
  std::string_view key;
  bool CudaConfig::*field;
};
constexpr CudaSwitch kCudaSwitches[] = {
    {"cuda", &CudaConfig::is_on},           {"cuda_kernel", &CudaConfig::kernels},
    {"cuda_memcpy", &CudaConfig::copies},   {"cuda_memset", &CudaConfig::fills},
    {"cuda_sync", &CudaConfig::waits},      {"cuda_event", &CudaConfig::events},
    {"cuda_memory", &CudaConfig::memory},   {"cuda_overhead", &CudaConfig::overhead},
    {"cuda_cpu_faults", &CudaConfig::cpu_faults},
    {"cuda_gpu_faults", &CudaConfig::gpu_faults},
};

constexpr std::string_view kCallKindNames[kCallKinds] = {"kernel", "memory", "sync", "other"};

void set_chains(std::int64_t (&from_ns)[kCallKinds], std::string_view kind,
                const std::string& value) {
  for (std::size_t i = 0; i < kCallKinds; ++i) {
    if (kind == kCallKindNames[i]) from_ns[i] = duration_ns(value, from_ns[i]);
  }
}

constexpr std::string_view kChainKey = "cuda_chains_", kPythonChainKey = "cuda_python_chains_";

void set_cuda(CudaConfig& config, std::string_view key, const std::string& value) {
  for (const CudaSwitch& known : kCudaSwitches) {
    if (key == known.key) config.*known.field = value != "0";
  }
  if (key.starts_with(kChainKey)) {
    set_chains(config.chains_from_ns, key.substr(kChainKey.size()), value);
  } else if (key.starts_with(kPythonChainKey)) {
    set_chains(config.python_chains_from_ns, key.substr(kPythonChainKey.size()), value);
  } else if (key == "cupti_path") {
    config.library_paths.push_back(value);
  } else if (key == "cuda_api") {
    config.calls = value == "none"  ? CudaCalls::kNone
                   : value == "all" ? CudaCalls::kAll
                                    : CudaCalls::kTelling;
  } else if (key == "cuda_graph") {
    config.graph_nodes = value != "graph";
  } else if (key == "cuda_waits") {
    config.cupti_waits = value == "cupti";
  } else if (key == "cuda_flush_ms") {
    config.flush_ms = std::clamp<std::uint64_t>(number(value, config.flush_ms), 10, 3'600'000);
  } else if (key == "cuda_detach_ms") {
    config.detach_ms = std::min<std::uint64_t>(number(value, config.detach_ms), 3'600'000);
  } else if (key == "cuda_buffer_bytes") {
    const std::uint64_t bytes = number(value, config.buffer_bytes);
    config.buffer_bytes =
        std::clamp(bytes, kMinCudaBufferBytes, kMaxBlockBytes) & ~std::uint64_t{4095};
  } else if (key == "cuda_buffers") {
    config.max_buffers =
        std::clamp<std::uint64_t>(number(value, config.max_buffers), 2, kMaxCudaBuffers);
  }
}

constexpr std::pair<std::string_view, CounterReplay> kReplays[] = {
    {"kernel", CounterReplay::kKernel},
    {"serial", CounterReplay::kSerial},
    {"steps", CounterReplay::kSteps},
    {"range", CounterReplay::kRange},
};

struct CounterNumber {
  std::string_view key;
  std::uint64_t CounterConfig::*field;
};
constexpr CounterNumber kCounterNumbers[] = {
    {"counter_skip_before_match", &CounterConfig::skip_before_match},
    {"counter_skip", &CounterConfig::skip},
    {"counter_count", &CounterConfig::count},
    {"counter_sample", &CounterConfig::sample},
    {"counter_burst", &CounterConfig::burst},
    {"counter_budget_ppm", &CounterConfig::budget_ppm},
};
struct CounterText {
  std::string_view key;
  std::string CounterConfig::*field;
};
constexpr CounterText kCounterTexts[] = {
    {"counter_name", &CounterConfig::name},
    {"counter_name_regex", &CounterConfig::name_regex},
    {"counter_name_base", &CounterConfig::name_base},
    {"counter_exclude", &CounterConfig::exclude},
    {"counter_window_instances", &CounterConfig::window_instances},
};

void set_counter_devices(CounterConfig& config, std::string_view list) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::uint64_t device = number(std::string(list.substr(0, end)), ~std::uint64_t{0});
    if (device <= 0xffff) config.devices.push_back(static_cast<std::uint32_t>(device));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

void set_ranges(RangeFilterConfig& config, std::string_view key, const std::string& value) {
  if (key == "counter_nvtx_include") {
    config.include.push_back(value);
  } else if (key == "counter_nvtx_exclude") {
    config.exclude.push_back(value);
  } else if (key == "counter_nvtx_scope") {
    config.per_process = value == "process";
  } else if (key == "counter_nvtx_instances") {
    config.instances = value;
  } else if (key == "counter_nvtx_per_window") {
    config.per_window = value != "0";
  }
}

void set_processes(ProcessesConfig& config, std::string_view key, const std::string& value) {
  if (key == "counter_processes") {
    config.filters.push_back(value);
  } else if (key == "counter_program") {
    config.program = static_cast<std::int32_t>(number(value, 0));
  } else if (key == "counter_only_program") {
    config.only_program = value != "0";
  }
}

void set_counters(CounterConfig& config, std::string_view key, const std::string& value) {
  for (const CounterNumber& known : kCounterNumbers) {
    if (key == known.key) config.*known.field = number(value, config.*known.field);
  }
  for (const CounterText& known : kCounterTexts) {
    if (key == known.key) config.*known.field = value;
  }
  set_ranges(config.ranges, key, value);
  set_processes(config.processes, key, value);
  if (key == "counters") {
    config.is_on = value != "0";
  } else if (key == "counter_metric") {
    config.metrics.push_back(value);
  } else if (key == "counter_kernel_id") {
    config.kernel_ids.push_back(value);
  } else if (key == "counter_devices") {
    set_counter_devices(config, value);
  } else if (key == "counter_filter_mode") {
    config.mode = value == "per-gpu"             ? FilterMode::kPerGpu
                  : value == "per-launch-config" ? FilterMode::kPerLaunchConfig
                                                 : FilterMode::kGlobal;
  } else if (key == "counter_clocks") {
    config.clocks = value == "boost"  ? Clocks::kBoost
                    : value == "base" ? Clocks::kBase
                                      : Clocks::kNone;
  } else if (key == "counter_caches") {
    config.flushes_caches = value == "all";
  } else if (key == "counter_kill") {
    config.ends_program = value != "0";
  } else if (key == "counter_replay") {
    for (const auto& [name, replay] : kReplays) {
      if (value == name) config.replay = replay;
    }
  }
}

constexpr std::uint64_t kMaxSampleSteps = 0xffff;
constexpr std::uint64_t kMaxSampleEvery = 0xffff'ffff;

void set_sample(SampleConfig& config, std::string_view key, const std::string& value) {
  if (key == "sample_steps") {
    config.steps = std::min(number(value, 0), kMaxSampleSteps);
  } else if (key == "sample_every") {
    config.every = std::min(number(value, 0), kMaxSampleEvery);
  } else if (key == "sample_duty_ppm") {
    config.duty_ppm = std::min<std::uint64_t>(number(value, 0), 1'000'000);
  } else if (key == "sample_once") {
    config.once = value != "0";
  } else if (key == "sample_calls") {
    config.by_calls = value != "0";
  } else if (key == "sample_range") {
    config.range = value;
  } else if (key == "sample_domain") {
    config.any_domain = value == "*";
    config.domain = config.any_domain || value == kDefaultDomain ? "" : value;
  }
}

void set(Config& config, std::string_view key, const std::string& value) {
  if (key == "nvtx") {
    config.nvtx = value != "0";
  } else if (key == "collect") {
    config.collect.push_back(value);
  } else if (key == "domain_include") {
    config.include_domains.push_back(value);
  } else if (key == "domain_exclude") {
    config.exclude_domains.push_back(value);
  } else if (key == "range_name") {
    config.range_name = value;
  } else if (key == "range_domain") {
    config.any_range_domain = value == "*";
    config.range_domain = config.any_range_domain || value == kDefaultDomain ? "" : value;
  } else if (key == "block_bytes") {
    const std::uint64_t bytes = number(value, config.block_bytes);
    config.block_bytes = std::clamp(bytes, kMinBlockBytes, kMaxBlockBytes) & ~std::uint64_t{4095};
  } else if (key == "keep_free_bytes") {
    config.keep_free_bytes = number(value, config.keep_free_bytes);
  } else if (key == "os_threshold") {
    config.os_calls.threshold_ns = duration_ns(value, config.os_calls.threshold_ns);
  } else if (key == "os_chains") {
    config.os_calls.chains_from_ns = duration_ns(value, kNoChains);
  } else if (key == "library_chains") {
    config.library_calls.chains_from_ns = duration_ns(value, kNoChains);
  } else if (key.starts_with("sample_")) {
    set_sample(config.sample, key, value);
  } else if (key == "pc_sampling") {
    const std::uint64_t exponent = number(value, 0);
    const bool is_valid = exponent >= 5 && exponent <= 31;  // CUPTI's bounds
    config.pc_sampling.period_exponent = is_valid ? static_cast<std::uint32_t>(exponent) : 0;
  } else if (key == "cubin_bytes") {
    config.pc_sampling.cubin_bytes = number(value, config.pc_sampling.cubin_bytes);
  } else if (key == "cpu_samples.hz") {
    const std::uint64_t hz = std::min<std::uint64_t>(number(value, 0), 10'000);
    config.cpu_samples.hz = static_cast<std::uint32_t>(hz);
  } else if (key == "cpu_samples.python") {
    config.cpu_samples.python = value != "0";
  } else if (key.starts_with("counter")) {
    set_counters(config.counters, key, value);
  } else {
    set_cuda(config.cuda, key, value);
  }
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool Config::collects(std::string_view collector) const { return holds(collect, collector); }

bool Config::is_domain_enabled(std::string_view name) const {
  const std::string_view shown = name.empty() ? kDefaultDomain : name;
  if (!include_domains.empty() && !holds(include_domains, shown)) return false;
  return !holds(exclude_domains, shown);
}

bool Config::is_capture_range(std::string_view name, std::string_view domain) const {
  return name == range_name && (any_range_domain || domain == range_domain);
}

Config parse_config(std::string_view text) {
  Config config;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != line.npos) set(config, line.substr(0, equals), decode(line.substr(equals + 1)));
  }
  return config;
}

int read_config(const std::string& path, Config& config) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  std::string text;
  char part[4096];
  ssize_t got = 0;
  while ((got = read(file, part, sizeof part)) > 0 && text.size() < kMaxConfigBytes) {
    text.append(part, static_cast<std::size_t>(got));
  }
  const int error = got < 0 ? errno : 0;
  close(file);
  if (error == 0) config = parse_config(text);
  return error;
}

}  // namespace warpline::agent
