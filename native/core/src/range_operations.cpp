// The GPU operations launched in each range: the first start, the last end, and how many.
#include <algorithm>

#include "boundary.h"
#include "range_sweep.h"

namespace {

struct WorkRange {
  int64_t start;
  int64_t end;
  int64_t soonest;
  int64_t row;
};

void add_operations(const wl_launches &in, const wl_call_work &work, const wl_range_work &out) {
  for (int64_t row = 0; row < in.ranges; ++row) {
    out.first[row] = INT64_MAX;
    out.last[row] = INT64_MIN;
    out.operations[row] = 0;
    out.launches[row] = 0;
  }
  const auto has_work = [&](int64_t call) { return work.operations[call] > 0; };
  const auto make = [&](int64_t row) {
    return WorkRange{in.range_start[row], in.range_end[row], 0, row};
  };
  warpline::sweep_calls<WorkRange>(
      in, has_work, make, [&](int64_t call, warpline::OpenRanges<WorkRange> &open) {
        for (const WorkRange &range : open.ranges()) {
          if (range.end < in.call_end[call]) continue;
          out.first[range.row] = std::min(out.first[range.row], work.first[call]);
          out.last[range.row] = std::max(out.last[range.row], work.last[call]);
          out.operations[range.row] += work.operations[call];
          ++out.launches[range.row];
        }
      });
}

}  // namespace

extern "C" int32_t wl_range_work_i64(const wl_launches *launches, const wl_call_work *work,
                                     const wl_range_work *out) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(launches != nullptr && work != nullptr && out != nullptr);
    warpline::check_launches(*launches);
    const bool has_calls = work->first && work->last && work->operations;
    const bool has_ranges = out->first && out->last && out->operations && out->launches;
    warpline::require(launches->calls == 0 || has_calls);
    warpline::require(launches->ranges == 0 || has_ranges);
    add_operations(*launches, *work, *out);
  });
}
