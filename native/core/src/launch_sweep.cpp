#include "launch_sweep.h"

#include <algorithm>
#include <limits>

#include "groups.h"
#include "radix_sort.h"

namespace warpline {
namespace {

constexpr int64_t kBeforeAll = std::numeric_limits<int64_t>::min();

void require_in_order(int64_t start, int64_t &last) {
  if (start < last) throw Failure(WL_UNSUPPORTED, "not in order of starts");
  last = start;
}

}  // namespace
}  // namespace warpline

wl_range_sweep::wl_range_sweep(int64_t rows, int32_t threads, int32_t processes)
    : threads_(threads),
      processes_(processes),
      last_range_(warpline::kBeforeAll),
      last_call_(warpline::kBeforeAll) {
  warpline::require(rows >= 0 && threads >= 0 && processes >= 0 && threads < INT32_MAX);
}

void wl_range_sweep::check(const wl_operation_rows &rows) const {
  const bool has_rows = rows.start && rows.end && rows.correlation && rows.process;
  warpline::require(rows.count >= 0 && (rows.count == 0 || has_rows));
  for (int64_t i = 0; i < rows.count; ++i) {
    warpline::require(rows.process[i] >= 0 && rows.process[i] < processes_);
  }
}

void wl_range_sweep::add_ranges(const wl_range_rows &rows) {
  const bool has_rows = rows.start && rows.end && rows.id && rows.thread && rows.group;
  warpline::require(rows.count >= 0 && (rows.count == 0 || has_rows));
  ranges_.erase(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(opened_));
  opened_ = 0;
  for (int64_t i = 0; i < rows.count; ++i) {
    const int32_t thread = rows.thread[i];
    warpline::require(thread >= -1 && thread < threads_ && rows.group[i] >= 0);
    warpline::require_in_order(rows.start[i], last_range_);
    // What contains nothing is left out.
    if (thread < 0 || rows.end[i] <= rows.start[i]) continue;
    ranges_.push_back({rows.start[i], rows.end[i], rows.id[i], thread, rows.group[i]});
  }
}

void wl_range_sweep::add_calls(const wl_call_rows &rows) {
  const bool has_rows = rows.start && rows.end && rows.correlation && rows.thread && rows.process;
  warpline::require(rows.count >= 0 && (rows.count == 0 || has_rows));
  for (int64_t i = 0; i < rows.count; ++i) {
    warpline::require(rows.thread[i] >= -1 && rows.thread[i] < threads_);
    warpline::require(rows.process[i] >= 0 && rows.process[i] < processes_);
    warpline::require_in_order(rows.start[i], last_call_);
    if (rows.known != nullptr && rows.known[i] == 0) continue;  // launched nothing
    if (!held_.empty() && held_.back().start != rows.start[i]) launch_held();
    held_.push_back(
        {rows.start[i], rows.end[i], rows.correlation[i], rows.thread[i], rows.process[i]});
  }
}

// Launches what starts together: all of it is known.
void wl_range_sweep::launch_held() {
  if (held_.size() > 1) {
    std::stable_sort(held_.begin(), held_.end(), [](const auto &a, const auto &b) {
      return a.end != b.end ? a.end > b.end : a.thread < b.thread;
    });
  }
  if (!held_.empty()) open_until(held_.front().start);
  for (const warpline::SweptCall &call : held_) launch(call);
  held_.clear();
}

void wl_range_sweep::open_until(int64_t now) {
  while (opened_ < ranges_.size() && ranges_[opened_].start <= now) {
    std::size_t last = opened_ + 1;
    while (last < ranges_.size() && ranges_[last].start == ranges_[opened_].start) ++last;
    if (last - opened_ > 1) {
      std::stable_sort(ranges_.begin() + static_cast<std::ptrdiff_t>(opened_),
                       ranges_.begin() + static_cast<std::ptrdiff_t>(last),
                       [](const auto &a, const auto &b) {
                         return a.end != b.end ? a.end > b.end : a.id < b.id;
                       });
    }
    for (; opened_ < last; ++opened_) open(ranges_[opened_]);
  }
}

void wl_range_sweep::finish() {
  launch_held();
  open_until(std::numeric_limits<int64_t>::max());
  ranges_ = {};
  opened_ = 0;
  assemble();
}

void wl_range_sweep::values(int64_t first, int64_t last, int64_t *values) const {
  std::vector<int64_t> starts{0};
  for (int64_t i = first; i < last; ++i) {
    starts.push_back(starts.back() + size_of(static_cast<std::size_t>(i)));
  }
  // The slices of threads are cut by values, so groups are found by where theirs begin.
  warpline::for_each_group<std::vector<int64_t>>(
      starts.data(), static_cast<int32_t>(last - first),
      [&](std::size_t begin, std::size_t end, std::vector<int64_t> &scratch) {
        const auto at = std::upper_bound(starts.begin(), starts.end(), static_cast<int64_t>(begin));
        gather(static_cast<std::size_t>(first + (at - starts.begin()) - 1), values + begin);
        warpline::sort_values(values + begin, end - begin, scratch);
      });
}

extern "C" {

int32_t wl_range_sweep_open(int32_t kind, int64_t rows, int32_t threads, int32_t processes,
                            wl_range_sweep **sweep) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr);
    warpline::require(kind == WL_SWEEP_KERNELS || kind == WL_SWEEP_PROJECTIONS);
    *sweep = (kind == WL_SWEEP_KERNELS ? warpline::make_kernel_sweep(rows, threads, processes)
                                       : warpline::make_projection_sweep(rows, threads, processes))
                 .release();
  });
}

void wl_range_sweep_close(wl_range_sweep *sweep) { delete sweep; }

int32_t wl_range_sweep_operations(wl_range_sweep *sweep, const wl_operation_rows *rows) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr && rows != nullptr);
    sweep->add_operations(*rows);
  });
}

int32_t wl_range_sweep_ranges(wl_range_sweep *sweep, const wl_range_rows *rows) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr && rows != nullptr);
    sweep->add_ranges(*rows);
  });
}

int32_t wl_range_sweep_calls(wl_range_sweep *sweep, const wl_call_rows *rows) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr && rows != nullptr);
    sweep->add_calls(*rows);
  });
}

int64_t wl_range_sweep_finish(wl_range_sweep *sweep) {
  const int32_t status = warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr);
    sweep->finish();
  });
  return status == WL_OK ? sweep->group_count() : -status;
}

int32_t wl_range_sweep_groups(const wl_range_sweep *sweep, int64_t *columns) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr && columns != nullptr);
    sweep->groups(columns);
  });
}

int32_t wl_range_sweep_values(const wl_range_sweep *sweep, int64_t first, int64_t last,
                              int64_t *values) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(sweep != nullptr && values != nullptr && first >= 0 && first <= last);
    warpline::require(last <= sweep->group_count());
    sweep->values(first, last, values);
  });
}

}  // extern "C"
