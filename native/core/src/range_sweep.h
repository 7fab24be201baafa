// Calls and the ranges that contain them, in one pass over both in order of their starts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

// The ranges that are open on one thread, in order of their starts. Range: what is kept of each,
// with an `end` and a `soonest`, the earliest end from the bottom of the stack up to it: nearly
// always its own, because ranges nest.
template <typename Range>
class OpenRanges {
 public:
  void open(Range range) {
    close_until(range.start);
    range.soonest = ranges_.empty() ? range.end : std::min(range.end, ranges_.back().soonest);
    ranges_.push_back(range);
  }

  // Removes the ranges that end at `now` or before.
  void close_until(int64_t now) {
    while (!ranges_.empty() && ranges_.back().soonest <= now) {
      if (ranges_.back().end <= now) {
        ranges_.pop_back();
      } else {
        close_below(now);
      }
    }
    unchanged_ = std::min(unchanged_, ranges_.size());
  }

  // Whether every open range ends at `moment` or later.
  bool all_reach(int64_t moment) const {
    return ranges_.empty() || ranges_.back().soonest >= moment;
  }

  std::vector<Range> &ranges() { return ranges_; }

  // How many ranges at the bottom are as they were when `keep` was last called.
  std::size_t unchanged() const { return unchanged_; }
  void keep() { unchanged_ = ranges_.size(); }

 private:
  // Ranges that cross, such as those of two domains: one below the top has ended.
  void close_below(int64_t now) {
    std::size_t kept = 0;
    while (ranges_[kept].end > now) ++kept;
    unchanged_ = std::min(unchanged_, kept);
    for (std::size_t i = kept; i < ranges_.size(); ++i) {
      if (ranges_[i].end <= now) continue;
      ranges_[kept] = ranges_[i];
      ranges_[kept].soonest =
          kept == 0 ? ranges_[0].end : std::min(ranges_[kept].end, ranges_[kept - 1].soonest);
      ++kept;
    }
    ranges_.resize(kept);
  }

  std::vector<Range> ranges_;
  std::size_t unchanged_ = 0;
};

// Checks what the sweep relies on: threads in their bounds, and starts that ascend.
inline void check_order(const int64_t *start, const int32_t *thread, int64_t n, int32_t threads) {
  for (int64_t i = 0; i < n; ++i) {
    if (thread[i] < -1 || thread[i] >= threads || (i > 0 && start[i] < start[i - 1])) {
      throw Failure(WL_BAD_ARGUMENT, "");
    }
  }
}

inline void check_launches(const wl_launches &in) {
  if (in.ranges < 0 || in.calls < 0 || in.threads < 0) throw Failure(WL_BAD_ARGUMENT, "");
  if (in.ranges > INT32_MAX || in.calls > INT32_MAX) throw Failure(WL_TOO_MANY, "");
  if (in.ranges > 0 && !(in.range_start && in.range_end && in.range_thread)) {
    throw Failure(WL_BAD_ARGUMENT, "");
  }
  if (in.calls > 0 && !(in.call_start && in.call_end && in.call_thread)) {
    throw Failure(WL_BAD_ARGUMENT, "");
  }
  check_order(in.range_start, in.range_thread, in.ranges, in.threads);
  check_order(in.call_start, in.call_thread, in.calls, in.threads);
}

// Calls on_call(call, open) for each wanted call on a thread: `open` has the ranges that are open
// there when it starts. make(row) returns what is kept of a range.
template <typename Range, typename IsWanted, typename Make, typename OnCall>
void sweep_calls(const wl_launches &in, const IsWanted &is_wanted, const Make &make,
                 const OnCall &on_call) {
  std::vector<OpenRanges<Range>> open(static_cast<std::size_t>(in.threads));
  int64_t row = 0;
  for (int64_t call = 0; call < in.calls; ++call) {
    const int32_t thread = in.call_thread[call];
    if (thread < 0 || !is_wanted(call)) continue;
    const int64_t now = in.call_start[call];
    for (; row < in.ranges && in.range_start[row] <= now; ++row) {
      const int32_t own = in.range_thread[row];
      // An empty range contains nothing.
      if (own < 0 || in.range_end[row] <= in.range_start[row]) continue;
      open[static_cast<std::size_t>(own)].open(make(row));
    }
    OpenRanges<Range> &around = open[static_cast<std::size_t>(thread)];
    around.close_until(now);
    on_call(call, around);
  }
}

}  // namespace warpline
