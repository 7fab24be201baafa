// The agent's configuration by the session: its agent.conf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::agent {

// Which of the program's CUDA calls are recorded.
enum class CudaCalls { kNone, kTelling, kAll };

// Kinds of calls that can have call chains.
enum class CallKind : std::uint8_t { kKernel, kMemory, kSync, kOther };
inline constexpr std::size_t kCallKinds = 4;
inline constexpr std::int64_t kNoChains = -1;

// The CUDA side: keys cuda and cuda_..., and cupti_path.
struct CudaConfig {
  bool is_on = false;
  std::vector<std::string> library_paths;  // of CUPTI, tried first
  CudaCalls calls = CudaCalls::kTelling;   // cuda_api=none|calls|all
  bool kernels = true;                     // cuda_kernel, and so on, =0|1
  bool copies = true;
  bool fills = true;
  bool waits = true;                       // cuda_sync
  bool events = true;                      // cuda_event
  // cuda_waits=calls|cupti: whether these are CUPTI's records, which add overhead to each launch. If
  // not, they follow from the calls, and with no call recorded there are none.
  bool cupti_waits = false;
  bool memory = false;
  bool cpu_faults = false;                 // cuda_cpu_faults: of managed memory, with migrations
  bool gpu_faults = false;
  bool overhead = true;
  bool graph_nodes = true;                 // cuda_graph=node|graph: node-level tracing
  // By CallKind, cuda_chains_kernel|memory|sync|other=NS: calls with at least this duration have a
  // call chain.
  std::int64_t chains_from_ns[kCallKinds] = {kNoChains, kNoChains, kNoChains, kNoChains};
  // The same for Python's stacks, cuda_python_chains_KIND=NS.
  std::int64_t python_chains_from_ns[kCallKinds] = {kNoChains, kNoChains, kNoChains, kNoChains};
  std::uint64_t flush_ms = 1000;           // at most this much is missing if the program is killed
  // CUPTI is detached in pauses expected to last at least this long (see cupti/detach.h); 0: never.
  std::uint64_t detach_ms = 0;
  std::uint64_t buffer_bytes = 2u << 20;
  std::uint64_t max_buffers = 64;
};

// How the counters of a launch are collected.
enum class CounterReplay : std::uint8_t {
  kAuto,    // kSerial if one pass is enough, else kKernel
  kKernel,  // CUPTI repeats each launch, and restores memory in between
  kSerial,  // one pass of each launch, while the counters stay programmed
  kSteps,   // one pass of each launch between two switches of recording, the next between the next
  kRange,   // one pass of all that runs between two switches of recording, as a whole
};

// What skip and count are applied to, each by itself.
enum class FilterMode : std::uint8_t { kGlobal, kPerGpu, kPerLaunchConfig };

// What the GPU's clocks are locked to while counting.
enum class Clocks : std::uint8_t { kNone, kBase, kBoost };

// In which processes launches are counted.
struct ProcessesConfig {
  bool only_program = false;         // counter_only_program
  std::int32_t program = 0;          // counter_program: the process that the launcher started
  // counter_processes: NAME, regex:EXPRESSION, exclude:NAME or exclude-tree:NAME, for executables
  std::vector<std::string> filters;
};

// Which launches are counted by the NVTX ranges that are open: keys counter_nvtx_.... An expression is
// lines: as the user wrote it; "push" or "start"; "text" or "regex"; the domain, empty for the
// default one; then [ and ] for the bottom and the top of the stack, * and + for any number of ranges and
// one, and =NAME.
struct RangeFilterConfig {
  std::vector<std::string> include;  // none: all launches
  std::vector<std::string> exclude;
  bool per_process = false;          // counter_nvtx_scope=process: one stack for all threads
  std::string instances;             // of what matches, counted from 1; empty: all
  bool per_window = false;           // the count restarts in each capture range

  bool is_on() const noexcept { return !include.empty() || !exclude.empty(); }
};

// Hardware counters of kernels: keys counters and counter_....
struct CounterConfig {
  bool is_on = false;
  std::vector<std::string> metrics;  // "NAME UNIT" or "NAME"; numbered from 0
  CounterReplay replay = CounterReplay::kAuto;
  // Which launches. A name or an expression, of which one may be empty; names are of this base.
  std::string name;
  std::string name_regex;
  std::string name_base = "function";  // or demangled, mangled
  std::vector<std::string> kernel_ids;  // CONTEXT:STREAM:[regex:]NAME:INVOCATION
  std::string exclude;                  // an expression for mangled names
  std::uint64_t skip_before_match = 0;  // launches of any name
  std::uint64_t skip = 0;               // launches that match
  std::uint64_t count = 0;              // launches to count after them; 0: all
  FilterMode mode = FilterMode::kGlobal;
  bool ends_program = false;            // counter_kill: it is over once count launches are counted
  std::uint64_t sample = 0;             // of each kernel, grid and block; 0: all
  std::uint64_t burst = 0;              // of these, in one burst (see counters/pace.h); 0: no bursts
  std::uint64_t budget_ppm = 0;         // of the process's time; 0: no limit
  std::vector<std::uint32_t> devices;   // CUDA's ordinals; empty: all
  RangeFilterConfig ranges;
  std::string window_instances;         // of capture ranges, counted from 1; empty: all
  ProcessesConfig processes;
  Clocks clocks = Clocks::kNone;
  bool flushes_caches = false;          // counter_caches=all: before each pass
};

// Sampling of program counters; processes and devices are those of counters.
struct PcSamplingConfig {
  std::uint32_t period_exponent = 0;  // pc_sampling=5..31: every 2^that cycles; 0: none
  std::uint64_t cubin_bytes = 1u << 30;  // of code that each process may keep

  bool is_on() const noexcept { return period_exponent != 0; }
};

// CPU samples by timers: keys cpu_samples.hz, cpu_samples.python.
struct CpuSamplesConfig {
  std::uint32_t hz = 0;  // samples per second of a thread's CPU time; 0: none
  bool python = false;   // with Python's frames
};

// Step sampling: keys sample_..., used in range mode kSteps.
struct SampleConfig {
  std::uint64_t steps = 0;     // of each `every`; 0: chosen from the duration of steps
  std::uint64_t every = 0;
  std::uint64_t duty_ppm = 0;  // fraction of steps to record, in millionths, if it is chosen
  bool once = false;           // the first `steps` after the start of recording, and no others
  bool by_calls = false;       // cudaProfilerStart starts a step; otherwise an NVTX range does
  std::string range;           // a pattern with * and ?; empty: common names of steps
  std::string domain;          // empty: the default domain
  bool any_domain = true;
};

// Calls of the C library: keys os_....
struct OsCallConfig {
  std::int64_t threshold_ns = 1000;          // shorter calls are not recorded
  std::int64_t chains_from_ns = kNoChains;   // os_chains: calls that get backtraces
};

// Calls of libraries: keys library_....
struct LibraryCallConfig {
  std::int64_t chains_from_ns = kNoChains;  // library_chains: calls that get backtraces
};

struct Config {
  bool nvtx = true;
  std::vector<std::string> collect;          // names of collectors
  std::vector<std::string> include_domains;  // if any, only these; "default" is the default domain
  std::vector<std::string> exclude_domains;
  std::string range_name;                    // of the capture range
  std::string range_domain;                  // empty: the default domain
  bool any_range_domain = false;
  SampleConfig sample;
  std::uint64_t block_bytes = 1u << 20;
  std::uint64_t keep_free_bytes = 64u << 20;
  CudaConfig cuda;
  CounterConfig counters;
  PcSamplingConfig pc_sampling;
  CpuSamplesConfig cpu_samples;
  OsCallConfig os_calls;
  LibraryCallConfig library_calls;

  bool collects(std::string_view collector) const;
  bool is_domain_enabled(std::string_view name) const;
  bool is_capture_range(std::string_view name, std::string_view domain) const;
};

// Parses lines of KEY=VALUE with percent-encoded values. Unknown keys and invalid lines are
// ignored: a newer launcher may write keys unknown to this agent.
Config parse_config(std::string_view text);

// Reads the configuration of a session. Returns 0 or an errno value.
int read_config(const std::string& path, Config& config);

}  // namespace warpline::agent
