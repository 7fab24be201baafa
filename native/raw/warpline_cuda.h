// What the CUDA records of a raw session have beside the words that records.toml declares.
#pragma once

#include <cstdint>

#include "warpline_raw.h"

namespace warpline::raw {

inline constexpr std::uint32_t kCudaNone = 0xffffffff;        // no stream, event or context
inline constexpr std::uint32_t kCudaNullStream = 0xfffffffe;  // of a call: the context's null stream

// The text of a kModule: this, then the path. Addresses as they are in memory; the record's first
// word is what the file's own addresses were moved by.
struct ModuleText {
  std::uint64_t first_address;
  std::uint64_t end_address;
  std::uint8_t build_id[24];  // zeros: none
};

}  // namespace warpline::raw
