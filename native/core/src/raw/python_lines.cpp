// The formats are described in CPython's Objects/lnotab_notes.txt and Objects/locations.md.
#include "raw/python_lines.h"

#include <cstddef>

namespace warpline {

namespace {

constexpr uint64_t kUnitBytes = 2;  // of an instruction

int64_t byte_at(std::string_view table, std::size_t at) {
  return static_cast<unsigned char>(table[at]);
}
int64_t signed_byte_at(std::string_view table, std::size_t at) {
  return static_cast<signed char>(table[at]);
}

// Pairs: by how much address and line grow to the next entry.
int64_t line_by_deltas(std::string_view table, int64_t line, uint64_t offset) {
  uint64_t address = 0;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    address += static_cast<uint64_t>(byte_at(table, at));
    if (address > offset) break;
    line += signed_byte_at(table, at + 1);
  }
  return line;
}

// Pairs: the bytes of a range, and by how much its line is beyond the one before.
int64_t line_by_ranges(std::string_view table, int64_t line, uint64_t offset) {
  constexpr int64_t kNoLine = -128;
  uint64_t end = 0;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    end += static_cast<uint64_t>(byte_at(table, at));
    const int64_t delta = signed_byte_at(table, at + 1);
    if (delta != kNoLine) line += delta;
    if (offset < end) return delta == kNoLine ? 0 : line;
  }
  return 0;
}

// A number in pieces of six bits, the lowest first, its sign in the lowest bit.
int64_t signed_varint(std::string_view table, std::size_t at) {
  uint64_t value = 0;
  for (unsigned shift = 0; at < table.size() && shift < 60; shift += 6, ++at) {
    value |= static_cast<uint64_t>(byte_at(table, at) & 63) << shift;
    if ((byte_at(table, at) & 64) == 0) break;
  }
  const auto size = static_cast<int64_t>(value >> 1);
  return (value & 1) != 0 ? -size : size;
}

// Entries that begin with a byte above 127: how many units, and how its line and columns are written.
int64_t line_by_locations(std::string_view table, int64_t line, uint64_t offset) {
  constexpr int64_t kOneLine = 10, kNoColumns = 13, kLong = 14, kNoLine = 15;
  uint64_t end = 0;
  for (std::size_t at = 0; at < table.size();) {
    const int64_t form = byte_at(table, at) >> 3 & 15;
    end += (static_cast<uint64_t>(byte_at(table, at) & 7) + 1) * kUnitBytes;
    if (form == kNoColumns || form == kLong) line += signed_varint(table, at + 1);
    if (form >= kOneLine && form < kNoColumns) line += form - kOneLine;
    if (offset < end) return form == kNoLine ? 0 : line;
    do ++at;
    while (at < table.size() && byte_at(table, at) < 128);
  }
  return 0;
}

}  // namespace

int64_t python_line(raw::PythonLines format, std::string_view table, uint32_t first_line,
                    uint64_t offset) {
  const auto first = int64_t{static_cast<int32_t>(first_line)};
  if (offset == raw::PythonFrame::kBeforeStart) return first;
  switch (format) {
    case raw::PythonLines::kDeltas: return line_by_deltas(table, first, offset);
    case raw::PythonLines::kRanges: return line_by_ranges(table, first, offset);
    case raw::PythonLines::kLocations: return line_by_locations(table, first, offset);
  }
  return 0;
}

}  // namespace warpline
