// The time that intervals cover, by group.
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
