// Nesting of intervals: each one's innermost container, by one sweep per group.
#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <vector>

#include "groups.h"
#include "radix_sort.h"
#include "warpline_core.h"

namespace {

constexpr std::size_t kMinRadixItems = 1024;  // below, a comparison sort is faster

// An interval on its way through the sweep. Ends are fetched by row: most inputs lie in order.
struct Opening {
  uint64_t start;  // its ordered bits
  int32_t row;
};

struct Open {
  int64_t end;
  int32_t row;
};

struct Scratch {
  std::vector<Opening> items;
  std::vector<Open> stack;
};

bool starts_before(const Opening &a, const Opening &b) { return a.start < b.start; }

// Orders items by start. Two ascending runs are merged: intervals and then the points to be looked
// for in them often come so.
void sort_by_start(Opening *items, std::size_t n, std::vector<Opening> &scratch) {
  Opening *const end = items + n;
  Opening *const second = std::is_sorted_until(items, end, starts_before);
  if (second == end) return;
  if (std::is_sorted(second, end, starts_before)) {
    std::inplace_merge(items, second, end, starts_before);
  } else if (n < kMinRadixItems) {
    std::sort(items, end, starts_before);
  } else {
    if (scratch.size() < n) scratch.resize(n);
    warpline::radix_sort(items, scratch.data(), n, [](const Opening &item) { return item.start; });
  }
}

// Orders those that start together by falling end, then by row.
void sort_ties(Opening *items, std::size_t n, const int64_t *end) {
  const auto outer_first = [end](const Opening &a, const Opening &b) {
    return end[a.row] != end[b.row] ? end[a.row] > end[b.row] : a.row < b.row;
  };
  for (std::size_t first = 0, next = 1; next <= n; ++next) {
    if (next < n && items[next].start == items[first].start) continue;
    if (next - first > 1) std::sort(items + first, items + next, outer_first);
    first = next;
  }
}

// An open interval that ends before the one at hand holds nothing that comes later, because the
// one at hand would be nearer: it leaves for good, and the ends on the stack fall from bottom to
// top. An interval must reach past the start of those it holds, which matters for empty ones.
// Returns whether an interval left that had not ended: the one at hand crosses it.
bool sweep(const Opening *items, std::size_t n, const int64_t *start, const int64_t *end,
           std::vector<Open> &stack, int64_t *parent, int32_t *depth) {
  stack.clear();
  bool crosses = false;
  for (std::size_t i = 0; i < n; ++i) {
    const int32_t row = items[i].row;
    const int64_t row_end = end[row];
    while (!stack.empty() && (stack.back().end < row_end || stack.back().end <= start[row])) {
      crosses |= stack.back().end > start[row];
      stack.pop_back();
    }
    parent[row] = stack.empty() ? -1 : stack.back().row;
    depth[row] = static_cast<int32_t>(stack.size());
    stack.push_back({row_end, row});
  }
  return crosses;
}

// Puts the intervals of each group together; false for a code out of range.
bool gather(const int64_t *start, const int32_t *codes, int64_t n, int32_t n_groups,
            std::vector<int64_t> &starts, std::vector<Opening> &items) {
  if (codes == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      items[static_cast<std::size_t>(i)] = {warpline::ordered_bits(start[i]),
                                            static_cast<int32_t>(i)};
    }
    starts = {0, n};
    return true;
  }
  if (!warpline::count_groups(codes, n, n_groups, starts.data())) return false;
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (int64_t i = 0; i < n; ++i) {
    const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(codes[i])]++);
    items[place] = {warpline::ordered_bits(start[i]), static_cast<int32_t>(i)};
  }
  return true;
}

}  // namespace

extern "C" int32_t wl_nest_i64(const int64_t *start, const int64_t *end, const int32_t *codes,
                               int64_t n, int32_t n_groups, int64_t *parent, int32_t *depth,
                               int32_t *crosses) {
  if (n < 0 || n_groups < 0) return WL_BAD_ARGUMENT;
  if (crosses != nullptr) *crosses = 0;
  if (n == 0) return WL_OK;
  if (start == nullptr || end == nullptr || parent == nullptr || depth == nullptr) {
    return WL_BAD_ARGUMENT;
  }
  if (n > std::numeric_limits<int32_t>::max()) return WL_TOO_MANY;
  if (codes == nullptr) n_groups = 1;
  try {
    std::vector<int64_t> starts(static_cast<std::size_t>(n_groups) + 1);
    std::vector<Opening> items(static_cast<std::size_t>(n));
    std::atomic<int32_t> found{0};
    if (!gather(start, codes, n, n_groups, starts, items)) return WL_BAD_ARGUMENT;
    warpline::for_each_group<Scratch>(
        starts.data(), n_groups, [&](std::size_t first, std::size_t last, Scratch &scratch) {
          sort_by_start(items.data() + first, last - first, scratch.items);
          sort_ties(items.data() + first, last - first, end);
          Opening *const own = items.data() + first;
          if (sweep(own, last - first, start, end, scratch.stack, parent, depth)) found = 1;
        });
    if (crosses != nullptr) *crosses = found;
    return WL_OK;
  } catch (const std::exception &) {
    return WL_NO_MEMORY;
  }
}
