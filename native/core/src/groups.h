// Items in groups that are numbered densely: where each group begins, and the groups over threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "parallel.h"

namespace warpline {

inline constexpr std::size_t kMinItemsPerThread = 64 * 1024;

// Counts each group's items into starts[g + 1], then sums; false for a code out of range.
inline bool count_groups(const int32_t *codes, int64_t n, int32_t n_groups, int64_t *starts) {
  std::fill(starts, starts + n_groups + 1, int64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    if (codes[i] < 0 || codes[i] >= n_groups) return false;
    ++starts[codes[i] + 1];
  }
  for (int32_t g = 0; g < n_groups; ++g) starts[g + 1] += starts[g];
  return true;
}

// Calls work(begin, end, scratch) for the items of each group, several groups at a time; each
// thread has a Scratch of its own.
template <typename Scratch, typename Work>
void for_each_group(const int64_t *starts, int32_t n_groups, const Work &work) {
  const auto items = static_cast<std::size_t>(starts[n_groups]);
  const std::size_t slices = slice_count(items, kMinItemsPerThread, 0);
  // A slice is a run of items; it takes the groups that begin in it.
  for_each_slice(items, slices, [&](std::size_t, std::size_t begin, std::size_t end) {
    Scratch scratch;
    const int64_t *last = starts + n_groups;
    const int64_t *group = std::lower_bound(starts, last, static_cast<int64_t>(begin));
    for (; group != last && *group < static_cast<int64_t>(end); ++group) {
      work(static_cast<std::size_t>(group[0]), static_cast<std::size_t>(group[1]), scratch);
    }
  });
}

}  // namespace warpline
