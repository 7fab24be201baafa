// Big-endian integers and SQLite's varints.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace warpline {

inline uint32_t load_be16(const uint8_t *at) { return static_cast<uint32_t>(at[0]) << 8 | at[1]; }

inline uint32_t load_be32(const uint8_t *at) {
  return static_cast<uint32_t>(at[0]) << 24 | static_cast<uint32_t>(at[1]) << 16 |
         static_cast<uint32_t>(at[2]) << 8 | at[3];
}

// Reads 8 bytes: buffers that are decoded end in kPadding spare bytes for it.
inline constexpr std::size_t kPadding = 8;

inline uint64_t load_be64(const uint8_t *at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap64(value);
  return value;
}

// A two's-complement integer of 1 to 8 bytes.
inline int64_t load_signed(const uint8_t *at, unsigned width) {
  return static_cast<int64_t>(load_be64(at)) >> (64 - 8 * width);
}

// Reads a varint of 1 to 9 bytes; returns the byte after it, or nullptr if it passes `end`.
inline const uint8_t *load_varint(const uint8_t *at, const uint8_t *end, uint64_t &value) {
  if (at < end && *at < 0x80) {
    value = *at;
    return at + 1;
  }
  value = 0;
  for (int i = 0; i < 9; ++i) {
    if (at >= end) return nullptr;
    const uint8_t byte = *at++;
    if (i == 8) {
      value = value << 8 | byte;
      break;
    }
    value = value << 7 | (byte & 0x7f);
    if (byte < 0x80) break;
  }
  return at;
}

}  // namespace warpline
