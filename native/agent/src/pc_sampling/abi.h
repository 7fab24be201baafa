// What sampling program counters needs of CUPTI, in declarations of its own.
//
// The layouts are those of CUPTI 12.6 to 13.5, which are the same. A test compares them with NVIDIA's
// headers where they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/abi.h"

namespace warpline::cupti {

inline constexpr Result kOutOfMemory = 8;  // the GPU's buffer was full

inline constexpr std::size_t kStallNameBytes = 128;
inline constexpr std::uint32_t kContinuous = 1;  // a mode of collection: kernels run as ever

#define WL_PACKED __attribute__((packed, aligned(8)))

struct WL_PACKED StallSamples {
  std::uint32_t stall;  // its index
  std::uint32_t samples;
};

// The samples of an instruction.
struct WL_PACKED PcSamples {
  std::size_t bytes;
  std::uint64_t checksum;  // of the module
  std::uint64_t offset;
  std::uint32_t function_index;
  std::uint32_t padding;
  char* function;  // may be shared by records: not to be freed
  std::size_t stall_count;
  StallSamples* stalls;  // with room for all reasons
  std::uint32_t correlation;
};

struct WL_PACKED PcData {
  std::size_t bytes;
  std::size_t capacity;  // of pcs
  std::uint64_t total_samples;  // with the dropped and the non-user ones
  std::uint64_t dropped_samples;
  std::size_t count;  // of pcs
  std::size_t remaining;
  std::uint64_t range;
  PcSamples* pcs;
  std::uint64_t non_user_samples;
  std::uint8_t is_buffer_full;
};

#undef WL_PACKED

enum class PcSetting : std::uint32_t {
  kPeriod = 1,  // an exponent of 2: cycles
  kStalls = 2,
  kScratchBytes = 3,
  kHardwareBufferBytes = 4,
  kMode = 5,
  kStartStop = 6,
  kDataBuffer = 8,
  kWorkerSleepMs = 9,
};

struct PcSettingValue {
  PcSetting setting;
  Result status;  // out
  union {
    std::uint64_t words[3];
    std::uint32_t number;
    std::size_t size;
    void* buffer;
    struct {
      std::size_t count;
      std::uint32_t* indexes;
    } stalls;
  };
};

// Every structure of parameters begins with its size up to its last field.
struct PcContext {  // to enable or disable
  std::size_t bytes;
  void* reserved;
  void* context;
};

struct PcStallCount {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t* count;  // out
};

struct PcStalls {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t count;
  std::uint32_t* indexes;  // out
  char** names;            // out: each has room for kStallNameBytes
};

struct PcConfig {
  std::size_t bytes;
  void* reserved;
  void* context;
  std::size_t count;
  PcSettingValue* values;
};

struct PcTake {
  std::size_t bytes;
  void* reserved;
  void* context;
  void* data;  // a PcData
};

struct CubinChecksum {
  std::size_t bytes;
  std::size_t image_bytes;
  const void* image;
  std::uint64_t checksum;  // out
};

struct PcFunctions {
  Result (*device_id)(void* context, std::uint32_t*);
  Result (*enable)(PcContext*);
  Result (*disable)(PcContext*);
  Result (*stall_count)(PcStallCount*);
  Result (*stalls)(PcStalls*);
  Result (*configure)(PcConfig*);
  Result (*take)(PcTake*);
  Result (*checksum)(CubinChecksum*);
};

}  // namespace warpline::cupti
