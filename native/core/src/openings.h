// Intervals in the order in which they open, group by group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "groups.h"
#include "radix_sort.h"

namespace warpline {

inline constexpr std::size_t kMinRadixItems = 1024;  // below, a comparison sort is faster

// An interval on its way through the sweep. Ends are fetched by row: most inputs lie in order.
struct Opening {
  uint64_t start;  // its ordered bits
  int32_t row;
};

inline bool starts_before(const Opening &a, const Opening &b) { return a.start < b.start; }

// Orders items by start. Two ascending runs are merged: intervals and then the points to be looked
// for in them often come so.
inline void sort_by_start(Opening *items, std::size_t n, std::vector<Opening> &scratch) {
  Opening *const end = items + n;
  Opening *const second = std::is_sorted_until(items, end, starts_before);
  if (second == end) return;
  if (std::is_sorted(second, end, starts_before)) {
    std::inplace_merge(items, second, end, starts_before);
  } else if (n < kMinRadixItems) {
    std::sort(items, end, starts_before);
  } else {
    if (scratch.size() < n) scratch.resize(n);
    radix_sort(items, scratch.data(), n, [](const Opening &item) { return item.start; });
  }
}

// Orders those that start together by falling end, then by row.
inline void sort_ties(Opening *items, std::size_t n, const int64_t *end) {
  const auto outer_first = [end](const Opening &a, const Opening &b) {
    return end[a.row] != end[b.row] ? end[a.row] > end[b.row] : a.row < b.row;
  };
  for (std::size_t first = 0, next = 1; next <= n; ++next) {
    if (next < n && items[next].start == items[first].start) continue;
    if (next - first > 1) std::sort(items + first, items + next, outer_first);
    first = next;
  }
}

// Orders the intervals of a group: by start, then the longest first, then by row.
inline void sort_openings(Opening *items, std::size_t n, const int64_t *end,
                          std::vector<Opening> &scratch) {
  sort_by_start(items, n, scratch);
  sort_ties(items, n, end);
}

// Puts the intervals of each group together; false for a code out of range.
inline bool gather(const int64_t *start, const int32_t *codes, int64_t n, int32_t n_groups,
                   std::vector<int64_t> &starts, std::vector<Opening> &items) {
  if (codes == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      items[static_cast<std::size_t>(i)] = {ordered_bits(start[i]), static_cast<int32_t>(i)};
    }
    starts = {0, n};
    return true;
  }
  if (!count_groups(codes, n, n_groups, starts.data())) return false;
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (int64_t i = 0; i < n; ++i) {
    const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(codes[i])]++);
    items[place] = {ordered_bits(start[i]), static_cast<int32_t>(i)};
  }
  return true;
}

}  // namespace warpline
