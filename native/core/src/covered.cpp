// The time that intervals cover: by group, and as intervals that do not overlap.
#include <algorithm>
#include <limits>
#include <vector>

#include "boundary.h"

using namespace warpline;

extern "C" int32_t wl_covered_i64(const int64_t *start, const int64_t *end, const int64_t *groups,
                                  int64_t n, int64_t n_groups, int64_t *covered) {
  return guarded(nullptr, 0, [&] {
    require(n >= 0 && n_groups >= 0 && (n == 0 || (start && end && groups)) &&
            (n_groups == 0 || covered));
    const auto count = static_cast<std::size_t>(n_groups);
    std::fill_n(covered, count, 0);
    // Until when each group is covered. Unsigned: the whole of 64 bits can be covered.
    std::vector<int64_t> reach(count, std::numeric_limits<int64_t>::min());
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0 && start[i] < start[i - 1]) throw Failure(WL_UNSUPPORTED, "not sorted");
      if (groups[i] < 0 || groups[i] >= n_groups || end[i] < start[i]) {
        throw Failure(WL_BAD_ARGUMENT, "a group or an interval out of range");
      }
      const auto group = static_cast<std::size_t>(groups[i]);
      const int64_t from = std::max(start[i], reach[group]);
      if (end[i] <= from) continue;
      covered[group] = static_cast<int64_t>(static_cast<uint64_t>(covered[group]) +
                                            static_cast<uint64_t>(end[i]) -
                                            static_cast<uint64_t>(from));
      reach[group] = end[i];
    }
  });
}

namespace warpline {
namespace {

// Calls found(start, end) for each stretch of time that the chosen intervals cover without a gap.
template <typename Found>
void unite(const int64_t *start, const int64_t *end, const uint8_t *chosen, int64_t n,
           const Found &found) {
  bool has_any = false;
  int64_t begin = 0, reach = 0, before = std::numeric_limits<int64_t>::min();
  for (int64_t i = 0; i < n; ++i) {
    if (start[i] < before) throw Failure(WL_UNSUPPORTED, "not sorted");
    if (end[i] < start[i]) throw Failure(WL_BAD_ARGUMENT, "an interval that ends before it starts");
    before = start[i];
    if (end[i] == start[i] || (chosen != nullptr && !chosen[i])) continue;
    if (has_any && start[i] <= reach) {
      reach = std::max(reach, end[i]);
      continue;
    }
    if (has_any) found(begin, reach);
    has_any = true;
    begin = start[i];
    reach = end[i];
  }
  if (has_any) found(begin, reach);
}

}  // namespace
}  // namespace warpline

extern "C" int64_t wl_union_i64(const int64_t *start, const int64_t *end, const uint8_t *chosen,
                                int64_t n, int64_t *union_start, int64_t *union_end) {
  int64_t count = 0;
  const int32_t status = guarded(nullptr, 0, [&] {
    require(n >= 0 && (n == 0 || (start && end)));
    if (union_start == nullptr) {
      unite(start, end, chosen, n, [&](int64_t, int64_t) { ++count; });
      return;
    }
    require(union_end);
    unite(start, end, chosen, n, [&](int64_t from, int64_t to) {
      union_start[count] = from;
      union_end[count++] = to;
    });
  });
  return status == WL_OK ? count : -status;
}
