// Least-significant-digit radix sort of 64-bit keys: stable, linear, and blind to the input's
// order, so that no input makes it slow.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace warpline {

inline constexpr unsigned kDigitBits = 11;
inline constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// Maps int64 to uint64 so that the order stays.
inline uint64_t ordered_bits(int64_t key) {
  return static_cast<uint64_t>(key) ^ (uint64_t{1} << 63);
}

// Sorts items[0, n) by key_of(item), a uint64_t; scratch has room for n items. Digits beyond the
// range of the keys are not looked at: keys that lie close together cost few passes.
template <typename Item, typename KeyOf>
void radix_sort(Item *items, Item *scratch, std::size_t n, const KeyOf &key_of) {
  if (n < 2) return;
  uint64_t low = key_of(items[0]);
  uint64_t high = low;
  for (std::size_t i = 1; i < n; ++i) {
    const uint64_t key = key_of(items[i]);
    low = std::min(low, key);
    high = std::max(high, key);
  }
  Item *from = items;
  Item *to = scratch;
  for (unsigned shift = 0; shift < 64 && (high - low) >> shift != 0; shift += kDigitBits) {
    std::array<std::size_t, kDigits> ends{};
    const auto digit = [&](const Item &item) {
      return (key_of(item) - low) >> shift & (kDigits - 1);
    };
    for (std::size_t i = 0; i < n; ++i) ++ends[digit(from[i])];
    std::size_t begin = 0;
    for (std::size_t &slot : ends) begin += std::exchange(slot, begin);
    for (std::size_t i = 0; i < n; ++i) to[ends[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + n, items);
}

// Sorts values ascending; `scratch` grows as needed.
inline void sort_values(int64_t *values, std::size_t n, std::vector<int64_t> &scratch) {
  constexpr std::size_t kMinRadixValues = 1024;  // below, a comparison sort is faster
  if (n < kMinRadixValues) {
    std::sort(values, values + n);
    return;
  }
  if (scratch.size() < n) scratch.resize(n);
  radix_sort(values, scratch.data(), n, ordered_bits);
}

}  // namespace warpline
