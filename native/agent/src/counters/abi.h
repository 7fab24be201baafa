// What counting needs of CUPTI's range profiler and profiler host, in declarations of its own.
//
// The layouts are those of CUPTI 12.6 to 13.5: structures kept their fields and grew at their end
// only, and each call says the size that it knows. A test compares sizes and offsets with NVIDIA's
// headers where they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.h"

namespace warpline::cupti {

// With kNotSupported, the results of locking clocks that have words of their own.
inline constexpr Result kInsufficientPrivileges = 35;

inline constexpr std::uint32_t kVersion12_6 = 24;  // the first with these functions
inline constexpr std::uint32_t kVersion13_4 = 130400;  // locks clocks and flushes caches

enum class RangeKind : std::uint32_t { kEachKernel = 1, kPushed = 2 };
enum class ReplayKind : std::uint32_t { kApplication = 1, kKernel = 2, kUser = 3 };
enum class CacheMode : std::uint32_t { kNone = 0, kAll = 1 };
enum class ClockMode : std::uint32_t { kBase = 1, kBoost = 2 };
enum class ClockStatus : std::uint32_t { kUnlocked = 1, kLocked = 2 };  // and others
inline constexpr std::uint32_t kForRanges = 0;  // type of a host object

// Every structure begins with its size up to its last field, which is less than sizeof where that
// has padding at its end.
struct CountersInit {
  std::size_t bytes;
  void* reserved;
};

struct CounterAvailability {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t image_bytes;
  std::uint8_t* image;  // null: asks for the size
};

struct ChipName {
  std::size_t bytes;
  void* reserved;
  std::size_t device;
  const char* name;  // out
};

struct HostInit {
  std::size_t bytes;
  void* reserved;
  std::uint32_t type;
  const char* chip;
  const std::uint8_t* availability;
  void* host;  // out
};

struct HostOnly {  // to end it
  std::size_t bytes;
  void* reserved;
  void* host;
};

struct HostMetrics {
  std::size_t bytes;
  void* reserved;
  void* host;
  const char** names;
  std::size_t count;
};

struct HostConfigSize {
  std::size_t bytes;
  void* reserved;
  void* host;
  std::size_t image_bytes;  // out
};

struct HostConfig {
  std::size_t bytes;
  void* reserved;
  void* host;
  std::size_t image_bytes;
  std::uint8_t* image;
};

struct HostPasses {
  std::size_t bytes;
  void* reserved;
  std::size_t image_bytes;
  std::uint8_t* image;
  std::size_t passes;  // out
};

struct HostValues {
  std::size_t bytes;
  void* reserved;
  void* host;
  const std::uint8_t* image;
  std::size_t image_bytes;
  std::size_t range;
  const char** names;
  std::size_t count;
  double* values;  // out
};

struct RangeEnable {
  std::size_t bytes;
  void* reserved;
  void* context;
  void* profiler;  // out
  CacheMode caches;  // since 13.4
};

struct RangeOnly {  // to disable it, start it, pop a range
  std::size_t bytes;
  void* reserved;
  void* profiler;
};

struct RangeStop {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t pass;
  std::size_t nesting_level;
  std::uint8_t is_complete;  // all passes were made
};

struct RangePush {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  const char* name;
};

struct RangeDecode {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t dropped;  // out
};

struct RangeDataSize {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  const char** names;
  std::size_t count;
  std::size_t max_ranges;
  std::uint32_t max_nodes;
  std::size_t image_bytes;  // out
};

struct RangeDataInit {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t image_bytes;
  std::uint8_t* image;
};

struct RangeConfig {
  std::size_t bytes;
  void* reserved;
  void* profiler;
  std::size_t config_bytes;
  const std::uint8_t* config;
  std::size_t image_bytes;
  std::uint8_t* image;
  RangeKind range;
  ReplayKind replay;
  std::size_t max_ranges;
  std::uint16_t nesting_levels;
  std::uint16_t min_nesting_level;
  std::size_t pass;
  std::uint16_t nesting_level;
};

struct RangeDataInfo {
  std::size_t bytes;
  void* reserved;
  const std::uint8_t* image;
  std::size_t image_bytes;
  std::size_t ranges;  // out
};

struct CounterFunctions {
  Result (*initialize)(CountersInit*);
  Result (*availability)(CounterAvailability*);
  Result (*chip_name)(ChipName*);
  Result (*device_id)(void* context, std::uint32_t*);

  Result (*host_init)(HostInit*);
  Result (*host_end)(HostOnly*);
  Result (*host_add)(HostMetrics*);
  Result (*host_config_size)(HostConfigSize*);
  Result (*host_config)(HostConfig*);
  Result (*host_passes)(HostPasses*);
  Result (*host_values)(HostValues*);

  Result (*enable)(RangeEnable*);
  Result (*disable)(RangeOnly*);
  Result (*configure)(RangeConfig*);
  Result (*start)(RangeOnly*);
  Result (*stop)(RangeStop*);
  Result (*push)(RangePush*);
  Result (*pop)(RangeOnly*);
  Result (*decode)(RangeDecode*);
  Result (*data_size)(RangeDataSize*);
  Result (*data_init)(RangeDataInit*);
  Result (*data_info)(RangeDataInfo*);

  // Since 13.4, else null. All others are needed.
  Result (*clock_status)(void* context, ClockStatus*);
  Result (*clock_lock)(void* context, ClockMode);
  Result (*clock_unlock)();
};

// The parameters of calls that launch kernels, as far as they are read.
struct LaunchParameters {  // cuLaunchKernel, cuLaunchCooperativeKernel
  void* function;
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t dynamic_shared_bytes;
  void* stream;
};
struct LaunchConfig {  // CUlaunchConfig
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t dynamic_shared_bytes;
  void* stream;
};
struct LaunchExParameters {  // cuLaunchKernelEx
  const LaunchConfig* config;
  void* function;
};

}  // namespace warpline::cupti
