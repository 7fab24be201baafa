// What the CUDA records of a raw session have beside the words that records.toml declares.
#pragma once

#include <cstdint>

#include "warpline_raw.h"

namespace warpline::raw {

inline constexpr std::uint32_t kCudaNone = 0xffffffff;        // no stream, event or context
inline constexpr std::uint32_t kCudaNullStream = 0xfffffffe;  // of a call: the context's null stream

// From here on numbers of CudaName records are those of texts of library calls, which are counted apart.
inline constexpr std::uint32_t kFirstLibraryText = 0x40000000;

// The text of a kModule: this, then the path. Addresses as they are in memory; the record's first
// word is what the file's own addresses were moved by.
struct ModuleText {
  std::uint64_t first_address;
  std::uint64_t end_address;
  std::uint8_t build_id[24];  // zeros: none
};

// What a chain ends with whose outer callers were not found. No code is there.
inline constexpr std::uint64_t kBrokenBacktrace = 1;

// How a code object of Python says which instruction belongs to which line.
enum class PythonLines : std::uint32_t {
  kDeltas = 0,     // 3.9: co_lnotab
  kRanges = 1,     // 3.10: co_linetable
  kLocations = 2,  // 3.11 and later: co_linetable
};

// The text of a kPythonCode: this, then the file, the name and the table of lines.
struct PythonCodeText {
  std::uint32_t first_line;
  PythonLines format;
  std::uint32_t file_bytes;
  std::uint32_t name_bytes;
};

// The second word of a frame of a kPythonChain.
struct PythonFrame {
  static constexpr std::uint64_t kBeforeStart = 0xffffffff;  // no instruction has begun
  static constexpr std::uint64_t kIsEntry = std::uint64_t{1} << 32;
  // From here on: which frame of the call's Chain the interpreter was entered in, from 1; 0: not known.
  static constexpr unsigned kNativeShift = 40;
};

}  // namespace warpline::raw
