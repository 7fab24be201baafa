// Nesting of intervals: each one's innermost container, by one sweep per group.
#include <atomic>
#include <exception>
#include <limits>
#include <vector>

#include "groups.h"
#include "openings.h"
#include "warpline_core.h"

namespace {

using warpline::Opening;

struct Open {
  int64_t end;
  int32_t row;
};

struct Scratch {
  std::vector<Opening> items;
  std::vector<Open> stack;
};

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
    if (!warpline::gather(start, codes, n, n_groups, starts, items)) return WL_BAD_ARGUMENT;
    warpline::for_each_group<Scratch>(
        starts.data(), n_groups, [&](std::size_t first, std::size_t last, Scratch &scratch) {
          Opening *const own = items.data() + first;
          warpline::sort_openings(own, last - first, end, scratch.items);
          if (sweep(own, last - first, start, end, scratch.stack, parent, depth)) found = 1;
        });
    if (crosses != nullptr) *crosses = found;
    return WL_OK;
  } catch (const std::exception &) {
    return WL_NO_MEMORY;
  }
}
