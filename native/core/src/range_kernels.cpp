// Kernels by the ranges that contain their launch calls, and the durations of each such group.
//
// Nothing is made for each pair of a kernel and a range. Kernels launched under the same path of
// open ranges, by their groups, are a cell; a group is made of cells. Paths are few.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "dense_ids.h"
#include "launch_sweep.h"
#include "range_sweep.h"

namespace warpline {
namespace {

struct KernelRange {
  int64_t start;
  int64_t end;
  int64_t soonest;
  int32_t group;
  int32_t path;  // of the ranges up to this one
};

// Numbers for pairs; a Failure for more, or harder ones, than it is built for.
class PairIds {
 public:
  explicit PairIds(int64_t rows) : ids_(rows, std::numeric_limits<int32_t>::max()) {}

  int32_t add(int32_t high, int32_t low) {
    const int32_t id = ids_.add(pair_key(high, low));
    if (id < 0) throw Failure(WL_TOO_MANY, "");
    return id;
  }

  std::size_t size() const { return ids_.keys().size(); }
  int32_t high(std::size_t id) const { return static_cast<int32_t>(ids_.keys()[id] >> 32); }
  int32_t low(std::size_t id) const { return static_cast<int32_t>(ids_.keys()[id]); }

 private:
  DenseIds ids_;
};

// Lists of numbers, one after another: list i is items[starts[i] .. starts[i + 1]).
struct Lists {
  std::vector<int64_t> starts;
  std::vector<int32_t> items;
};

class KernelSweep : public wl_range_sweep {
 public:
  KernelSweep(int64_t rows, int32_t threads, int32_t processes)
      : wl_range_sweep(rows, threads, processes),
        heads_(rows, -1),
        open_(static_cast<std::size_t>(threads)),
        paths_(rows),
        cells_(rows),
        entries_(rows),
        launched_(rows) {}

  void add_operations(const wl_operation_rows &rows) override;
  int64_t group_count() const override { return static_cast<int64_t>(order_.size()); }
  void groups(int64_t *columns) const override;

 protected:
  void open(const SweptRange &range) override;
  void launch(const SweptCall &call) override;
  void assemble() override;
  int64_t size_of(std::size_t group) const override { return sizes_[entry_at(group)]; }
  void gather(std::size_t group, int64_t *values) const override;

 private:
  struct Span {
    int64_t start;
    int64_t end;
  };
  // Launches of a name that may decide whether a range is counted, ascending by start and by end.
  struct Latest {
    std::vector<Span> spans;
    std::size_t first = 0;  // those before do not matter any more
  };

  // Paths: 0 for kernels whose thread is not known, one for each thread, then those in them.
  int32_t root_of(int32_t thread) const { return thread + 1; }
  int32_t roots() const { return threads_ + 1; }
  int32_t path_inside(int32_t path, int32_t group) { return roots() + paths_.add(path, group); }
  int32_t path_around(int32_t thread, OpenRanges<KernelRange> &open);
  int32_t path_reaching(int32_t thread, const std::vector<KernelRange> &open, int64_t end);

  void count_ranges(const SweptCall &call, int32_t name, const std::vector<KernelRange> &open);
  void put_into_cells(int32_t kernel, int32_t path);
  void sort_into_cells();
  void list_entries();
  std::size_t entry_at(std::size_t group) const { return static_cast<std::size_t>(order_[group]); }

  // By kernel: its name, its duration, and the next one of its correlation id, later its cell.
  Growing<int32_t> names_;
  Durations durations_;
  Growing<int32_t> next_;
  ByCorrelation<int32_t> heads_;  // the latest kernel of each id
  std::vector<OpenRanges<KernelRange>> open_;
  int32_t range_groups_ = 0;
  PairIds paths_;     // (outer path, range group)
  PairIds cells_;     // (path, kernel name)
  PairIds entries_;   // (range group, kernel name)
  PairIds launched_;  // (thread, kernel name)
  std::vector<Latest> latest_;        // by these
  std::vector<int64_t> ranges_;            // by entry
  std::vector<int64_t> cell_starts_;
  std::vector<uint32_t> short_values_;  // by cell, if all fit
  std::vector<int64_t> long_values_;
  Lists members_;               // the cells of each entry
  std::vector<int64_t> sizes_;  // values of each entry
  std::vector<int32_t> order_;  // entries by range group, then name
};

// Kernels of one id, such as those of a CUDA graph, are a chain.
void KernelSweep::add_operations(const wl_operation_rows &rows) {
  check(rows);
  require(rows.count == 0 || rows.name != nullptr);
  for (int64_t i = 0; i < rows.count; ++i) {
    require(rows.name[i] >= 0);
    const std::size_t kernel = names_.size();
    if (kernel >= INT32_MAX) throw Failure(WL_TOO_MANY, "");
    names_.push(rows.name[i]);
    durations_.push(rows.end[i] - rows.start[i]);
    if (rows.known != nullptr && rows.known[i] == 0) {
      next_.push(cells_.add(0, rows.name[i]));
      continue;
    }
    int32_t &head = heads_.at(rows.process[i], rows.correlation[i]);
    next_.push(std::exchange(head, static_cast<int32_t>(kernel)));
  }
}

void KernelSweep::open(const SweptRange &range) {
  range_groups_ = std::max(range_groups_, range.group + 1);
  open_[static_cast<std::size_t>(range.thread)].open({range.start, range.end, 0, range.group, 0});
}

void KernelSweep::launch(const SweptCall &call) {
  const int32_t head = heads_.take(call.process, call.correlation);
  if (head < 0) return;
  if (call.thread < 0) return put_into_cells(head, 0);
  OpenRanges<KernelRange> &open = open_[static_cast<std::size_t>(call.thread)];
  open.close_until(call.start);
  const int32_t path = open.all_reach(call.end)
                           ? path_around(call.thread, open)
                           : path_reaching(call.thread, open.ranges(), call.end);
  for (int32_t kernel = head; kernel >= 0; kernel = next_[static_cast<std::size_t>(kernel)]) {
    count_ranges(call, names_[static_cast<std::size_t>(kernel)], open.ranges());
  }
  put_into_cells(head, path);
}

void KernelSweep::put_into_cells(int32_t kernel, int32_t path) {
  while (kernel >= 0) {
    const auto at = static_cast<std::size_t>(kernel);
    kernel = std::exchange(next_[at], cells_.add(path, names_[at]));
  }
}

// Returns the path of all open ranges.
int32_t KernelSweep::path_around(int32_t thread, OpenRanges<KernelRange> &open) {
  std::vector<KernelRange> &ranges = open.ranges();
  std::size_t i = open.unchanged();
  int32_t path = i == 0 ? root_of(thread) : ranges[i - 1].path;
  for (; i < ranges.size(); ++i) path = ranges[i].path = path_inside(path, ranges[i].group);
  open.keep();
  return path;
}

// Returns the path of the open ranges that end at `end` or later: the others end during the call.
int32_t KernelSweep::path_reaching(int32_t thread, const std::vector<KernelRange> &open,
                                   int64_t end) {
  int32_t path = root_of(thread);
  for (const KernelRange &range : open) {
    if (range.end >= end) path = path_inside(path, range.group);
  }
  return path;
}

// Counts the ranges for which this is the first kernel of its name.
//
// Earlier launches of the name matter if none is inside them. All open ranges reach past those that have
// ended: of these, the last one tells all.
void KernelSweep::count_ranges(const SweptCall &call, int32_t name,
                               const std::vector<KernelRange> &open) {
  const auto launched = static_cast<std::size_t>(launched_.add(call.thread, name));
  if (launched == latest_.size()) latest_.emplace_back();
  Latest &latest = latest_[launched];
  std::vector<Span> &spans = latest.spans;
  const auto first_where = [&](const auto &holds) {
    return std::partition_point(spans.begin() + static_cast<std::ptrdiff_t>(latest.first),
                                spans.end(), [&](const Span &span) { return !holds(span); });
  };
  const auto running = first_where([&](const Span &span) { return span.end > call.start; });
  const auto ended = static_cast<std::size_t>(running - spans.begin());
  if (ended > 0) latest.first = std::max(latest.first, ended - 1);
  for (std::size_t i = open.size(); i-- > 0;) {
    const KernelRange &range = open[i];
    if (range.end < call.end) continue;
    const auto inside = first_where([&](const Span &span) { return span.start >= range.start; });
    if (inside != spans.end() && inside->end <= range.end) {
      // Ranges further down start earlier, and those that contain this call reach past its end.
      if (inside->end <= call.end) break;
      continue;
    }
    const auto entry = static_cast<std::size_t>(entries_.add(range.group, name));
    if (entry == ranges_.size()) ranges_.push_back(0);
    ++ranges_[entry];
  }
  while (spans.size() > latest.first && spans.back().end >= call.end) spans.pop_back();
  if (2 * latest.first > spans.size()) {
    spans.erase(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(latest.first));
    latest.first = 0;
  }
  spans.push_back({call.start, call.end});
}

void KernelSweep::assemble() {
  heads_.for_each([&](int32_t head) { put_into_cells(head, 0); });  // their calls are not known
  heads_.clear();
  names_ = {};
  sort_into_cells();
  list_entries();
}

void KernelSweep::sort_into_cells() {
  cell_starts_.assign(cells_.size() + 1, 0);
  for (const int32_t cell : next_) ++cell_starts_[static_cast<std::size_t>(cell) + 1];
  std::partial_sum(cell_starts_.begin(), cell_starts_.end(), cell_starts_.begin());
  std::vector<int64_t> place(cell_starts_.begin(), cell_starts_.end() - 1);
  const auto scatter = [&](auto &values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    values.resize(next_.size());
    for (std::size_t kernel = 0; kernel < next_.size(); ++kernel) {
      const auto at = static_cast<std::size_t>(place[static_cast<std::size_t>(next_[kernel])]++);
      values[at] = static_cast<Value>(durations_[kernel]);
    }
  };
  if (durations_.is_short()) {
    scatter(short_values_);
  } else {
    scatter(long_values_);
  }
  next_ = {};
  durations_ = {};
}

// Makes the groups of their cells. The kernels of a root are outside all ranges; the groups of roots
// are numbered from -1 down.
void KernelSweep::list_entries() {
  std::vector<std::pair<int32_t, int32_t>> pairs;  // entry, cell
  std::vector<int32_t> listed(static_cast<std::size_t>(range_groups_), -1);
  const auto add = [&](int32_t group, std::size_t cell) {
    const auto entry = static_cast<std::size_t>(entries_.add(group, cells_.low(cell)));
    if (entry == ranges_.size()) ranges_.push_back(0);
    pairs.emplace_back(static_cast<int32_t>(entry), static_cast<int32_t>(cell));
  };
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    int32_t path = cells_.high(cell);
    if (path < roots()) add(-1 - path, cell);
    while (path >= roots()) {
      const auto at = static_cast<std::size_t>(path - roots());
      int32_t &seen = listed[static_cast<std::size_t>(paths_.low(at))];
      // A group that is in the path twice holds the cell once.
      if (std::exchange(seen, static_cast<int32_t>(cell)) != static_cast<int32_t>(cell)) {
        add(paths_.low(at), cell);
      }
      path = paths_.high(at);
    }
  }
  members_.starts.assign(entries_.size() + 1, 0);
  sizes_.assign(entries_.size(), 0);
  for (const auto &[entry, cell] : pairs) {
    const auto of = static_cast<std::size_t>(cell);
    ++members_.starts[static_cast<std::size_t>(entry) + 1];
    sizes_[static_cast<std::size_t>(entry)] += cell_starts_[of + 1] - cell_starts_[of];
  }
  std::partial_sum(members_.starts.begin(), members_.starts.end(), members_.starts.begin());
  std::vector<int64_t> place(members_.starts.begin(), members_.starts.end() - 1);
  members_.items.resize(pairs.size());
  for (const auto &[entry, cell] : pairs) {
    members_.items[static_cast<std::size_t>(place[static_cast<std::size_t>(entry)]++)] = cell;
  }
  order_.resize(entries_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const auto at = static_cast<std::size_t>(a);
    const auto other = static_cast<std::size_t>(b);
    return std::pair(entries_.high(at), entries_.low(at)) <
           std::pair(entries_.high(other), entries_.low(other));
  });
}

void KernelSweep::groups(int64_t *columns) const {
  const std::size_t n = order_.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t entry = entry_at(i);
    columns[i] = entries_.high(entry);
    columns[n + i] = entries_.low(entry);
    columns[2 * n + i] = ranges_[entry];
    columns[3 * n + i] = sizes_[entry];
  }
}

void KernelSweep::gather(std::size_t group, int64_t *values) const {
  const std::size_t entry = entry_at(group);
  for (int64_t i = members_.starts[entry]; i < members_.starts[entry + 1]; ++i) {
    const auto cell = static_cast<std::size_t>(members_.items[static_cast<std::size_t>(i)]);
    const auto begin = cell_starts_[cell];
    const auto end = cell_starts_[cell + 1];
    values = short_values_.empty()
                 ? std::copy(long_values_.begin() + begin, long_values_.begin() + end, values)
                 : std::copy(short_values_.begin() + begin, short_values_.begin() + end, values);
  }
}

}  // namespace

std::unique_ptr<wl_range_sweep> make_kernel_sweep(int64_t rows, int32_t threads,
                                                  int32_t processes) {
  return std::make_unique<KernelSweep>(rows, threads, processes);
}

}  // namespace warpline
