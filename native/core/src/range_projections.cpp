// Ranges projected onto the GPU, by their groups: how long the work of each range of a group took
// there, and sums over these ranges.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "launch_sweep.h"

namespace warpline {
namespace {

// What was launched: its first start, its last end, and how much it is.
struct Work {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  int64_t operations = 0;

  void add(const Work &other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
    operations += other.operations;
  }
};

struct WorkingRange {
  int64_t start;
  int64_t end;
  int32_t group;
  Work work;
  int64_t launches;
  int64_t children;
};

class ProjectionSweep : public wl_range_sweep {
 public:
  ProjectionSweep(int64_t rows, int32_t threads, int32_t processes)
      : wl_range_sweep(rows, threads, processes),
        work_(rows, Work{}),
        open_(static_cast<std::size_t>(threads)) {}

  void add_operations(const wl_operation_rows &rows) override;
  int64_t group_count() const override { return static_cast<int64_t>(groups_.size()); }
  void groups(int64_t *columns) const override;

 protected:
  void open(const SweptRange &range) override;
  void launch(const SweptCall &call) override;
  void assemble() override;
  int64_t size_of(std::size_t group) const override {
    return static_cast<int64_t>(groups_[group].projected.size());
  }
  void gather(std::size_t group, int64_t *values) const override {
    groups_[group].projected.copy(values);
  }

 private:
  struct Group {
    Durations projected;
    int64_t lasted = 0;  // the ranges themselves
    int64_t launches = 0;
    int64_t depth = 0;
    int64_t children = 0;
    int64_t operations = 0;
  };

  void close_until(std::vector<WorkingRange> &open, int64_t now);
  void close(std::vector<WorkingRange> &open);

  ByCorrelation<Work> work_;
  std::vector<std::vector<WorkingRange>> open_;  // by thread: each is inside the one before
  std::vector<Group> groups_;
};

void add_to(int64_t &sum, int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) throw Failure(WL_UNSUPPORTED, "a sum is too large");
}

void ProjectionSweep::add_operations(const wl_operation_rows &rows) {
  check(rows);
  for (int64_t i = 0; i < rows.count; ++i) {
    if (rows.known != nullptr && rows.known[i] == 0) continue;
    work_.at(rows.process[i], rows.correlation[i]).add({rows.start[i], rows.end[i], 1});
  }
}

void ProjectionSweep::open(const SweptRange &range) {
  std::vector<WorkingRange> &open = open_[static_cast<std::size_t>(range.thread)];
  close_until(open, range.start);
  if (!open.empty() && open.back().end < range.end) {
    throw Failure(WL_UNSUPPORTED, "ranges of a thread overlap");
  }
  open.push_back({range.start, range.end, range.group, {}, 0, 0});
}

void ProjectionSweep::launch(const SweptCall &call) {
  const Work work = work_.take(call.process, call.correlation);
  if (work.operations == 0 || call.thread < 0) return;
  std::vector<WorkingRange> &open = open_[static_cast<std::size_t>(call.thread)];
  close_until(open, call.start);
  // The innermost range may end before the call; the ones around it end later.
  for (auto range = open.rbegin(); range != open.rend(); ++range) {
    if (range->end < call.end) continue;
    range->work.add(work);
    ++range->launches;
    return;
  }
}

void ProjectionSweep::close_until(std::vector<WorkingRange> &open, int64_t now) {
  while (!open.empty() && open.back().end <= now) close(open);
}

// Counts the innermost range, and passes its work on to the one around it.
void ProjectionSweep::close(std::vector<WorkingRange> &open) {
  const WorkingRange range = open.back();
  open.pop_back();
  if (range.launches == 0) return;
  if (!open.empty()) {
    WorkingRange &parent = open.back();
    parent.work.add(range.work);
    parent.launches += range.launches;
    ++parent.children;
  }
  const auto place = static_cast<std::size_t>(range.group);
  if (place >= groups_.size()) groups_.resize(place + 1);
  Group &group = groups_[place];
  group.projected.push(range.work.last - range.work.first);
  add_to(group.lasted, range.end - range.start);
  group.launches += range.launches;
  group.depth += static_cast<int64_t>(open.size());
  group.children += range.children;
  group.operations += range.work.operations;
}

void ProjectionSweep::assemble() {
  for (std::vector<WorkingRange> &open : open_) {
    close_until(open, std::numeric_limits<int64_t>::max());
  }
  work_.clear();
}

void ProjectionSweep::groups(int64_t *columns) const {
  const std::size_t n = groups_.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Group &group = groups_[i];
    columns[i] = size_of(i);
    columns[n + i] = group.lasted;
    columns[2 * n + i] = group.launches;
    columns[3 * n + i] = group.depth;
    columns[4 * n + i] = group.children;
    columns[5 * n + i] = group.operations;
  }
}

}  // namespace

std::unique_ptr<wl_range_sweep> make_projection_sweep(int64_t rows, int32_t threads,
                                                      int32_t processes) {
  return std::make_unique<ProjectionSweep>(rows, threads, processes);
}

}  // namespace warpline
