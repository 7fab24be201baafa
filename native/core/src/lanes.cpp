// Lanes of a picture: intervals spread so that no two in a lane overlap.
#include <algorithm>
#include <limits>
#include <vector>

#include "boundary.h"
#include "groups.h"
#include "openings.h"

using namespace warpline;

namespace {

struct LaneScratch {
  std::vector<Opening> items;
  std::vector<int64_t> ends;
};

// All times of one call.
struct Spread {
  const int64_t *start;
  const int64_t *end;
  int32_t most;
  int32_t *lane;
};

// Gives all intervals of a group the first lane; false if two of them overlap.
bool in_one_lane(const Spread &in, const Opening *items, std::size_t n) {
  int64_t reach = std::numeric_limits<int64_t>::min();
  for (std::size_t i = 0; i < n; ++i) {
    const int32_t row = items[i].row;
    if (in.start[row] < reach) return false;
    reach = in.end[row];
    in.lane[row] = 0;
  }
  return true;
}

// Gives each interval the lane of its nesting depth; false if two of a lane overlap.
bool by_depth(const Spread &in, const Opening *items, std::size_t n,
              std::vector<int64_t> &stack, std::vector<int64_t> &reach) {
  stack.clear();
  reach.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const int32_t row = items[i].row;
    const int64_t start = in.start[row];
    const int64_t end = in.end[row];
    // As in wl_nest_i64: what ends before this one holds nothing that comes later.
    while (!stack.empty() && (stack.back() < end || stack.back() <= start)) stack.pop_back();
    const std::size_t depth = stack.size();
    stack.push_back(end);
    if (depth == reach.size()) reach.push_back(std::numeric_limits<int64_t>::min());
    if (start < reach[depth]) return false;
    reach[depth] = end;
    in.lane[row] = depth < static_cast<std::size_t>(in.most) ? static_cast<int32_t>(depth) : -1;
  }
  return true;
}

// Gives each interval the first lane that is free when it starts.
void first_free(const Spread &in, const Opening *items, std::size_t n,
                std::vector<int64_t> &reach) {
  reach.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const int32_t row = items[i].row;
    const int64_t start = in.start[row];
    const auto free = std::find_if(reach.begin(), reach.end(),
                                   [start](int64_t end) { return end <= start; });
    const auto place = static_cast<int32_t>(free - reach.begin());
    if (free != reach.end()) {
      *free = in.end[row];
    } else if (place < in.most) {
      reach.push_back(in.end[row]);
    }
    in.lane[row] = place < in.most ? place : -1;
  }
}

}  // namespace

extern "C" int32_t wl_lanes_i64(const int64_t *start, const int64_t *end, const int32_t *codes,
                                int64_t n, int32_t n_groups, int32_t most, int32_t *lane) {
  return guarded(nullptr, 0, [&] {
    require(n >= 0 && n_groups >= 0 && most > 0 && (n == 0 || (start && end && codes && lane)));
    if (n > std::numeric_limits<int32_t>::max()) throw Failure(WL_TOO_MANY, "too many rows");
    std::vector<int64_t> starts(static_cast<std::size_t>(n_groups) + 1);
    std::vector<Opening> items(static_cast<std::size_t>(n));
    require(gather(start, codes, n, n_groups, starts, items));
    const Spread in{start, end, most, lane};
    for_each_group<LaneScratch>(
        starts.data(), n_groups, [&](std::size_t first, std::size_t last, LaneScratch &scratch) {
          Opening *const own = items.data() + first;
          const std::size_t count = last - first;
          sort_openings(own, count, end, scratch.items);
          if (in_one_lane(in, own, count)) return;
          std::vector<int64_t> stack;
          if (by_depth(in, own, count, stack, scratch.ends)) return;
          first_free(in, own, count, scratch.ends);
        });
  });
}
