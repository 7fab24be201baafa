// Kernels by the ranges that contain their launch calls, and the values of each such group.
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

#include "boundary.h"
#include "dense_ids.h"
#include "groups.h"
#include "radix_sort.h"
#include "range_sweep.h"

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

struct KernelRange {
  int64_t start;
  int64_t end;
  int64_t soonest;
  int32_t row;
  int32_t path;  // of the ranges up to this one
};

int64_t pair_key(int32_t high, int32_t low) {
  return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low));
}

// Numbers for pairs; a Failure for more, or harder ones, than it is built for.
class PairIds {
 public:
  explicit PairIds(int64_t n) : ids_(n, std::numeric_limits<int32_t>::max()) {}

  int32_t add(int32_t high, int32_t low) {
    const int32_t id = ids_.add(pair_key(high, low));
    if (id < 0) throw warpline::Failure(WL_TOO_MANY, "");
    return id;
  }

  std::size_t size() const { return ids_.keys().size(); }
  int32_t high(std::size_t id) const { return static_cast<int32_t>(ids_.keys()[id] >> 32); }
  int32_t low(std::size_t id) const { return static_cast<int32_t>(ids_.keys()[id]); }

 private:
  warpline::DenseIds ids_;
};

// Lists of numbers, one after another: list i is items[starts[i] .. starts[i + 1]).
struct Lists {
  std::vector<int64_t> starts;
  std::vector<int32_t> items;
};

}  // namespace

struct wl_range_kernels {
  wl_range_kernels(const wl_launches &in, const wl_launched_kernels &kernels);

  int64_t group_count() const { return static_cast<int64_t>(order_.size()); }
  void groups(int32_t *group, int32_t *name, int64_t *ranges, int64_t *kernels) const;
  void values(int64_t first, int64_t last, int64_t *values) const;

 private:
  // Paths: 0 for kernels whose thread is unknown, one for each thread, then those in them.
  int32_t root_of(int32_t thread) const { return thread + 1; }
  int32_t roots() const { return in_.threads + 1; }
  int32_t path_inside(int32_t path, int32_t row) {
    return roots() + paths_.add(path, kernels_.range_group[row]);
  }
  int32_t path_around(int32_t thread, warpline::OpenRanges<KernelRange> &open);
  int32_t path_reaching(int32_t thread, const std::vector<KernelRange> &open, int64_t end);

  void check() const;
  void chain_kernels();
  void find_orderly_threads();
  void sweep();
  void count_ranges(int64_t call, int32_t name, const std::vector<KernelRange> &open);
  void sort_into_cells();
  void assemble();

  wl_launches in_;  // until all is assembled
  wl_launched_kernels kernels_;
  PairIds paths_;    // (outer path, range group)
  PairIds cells_;    // (path, kernel name)
  PairIds entries_;  // (range group, kernel name)
  PairIds counted_;  // (range, kernel name), of threads whose calls overlap
  PairIds launched_;  // (thread, kernel name)
  std::vector<int64_t> launched_at_;  // start of the latest launch
  std::vector<uint8_t> is_orderly_;   // by thread
  std::vector<int32_t> head_;  // by call: its first kernel, or -1
  std::vector<int32_t> next_;  // by kernel: the next one of the call, later its cell
  std::vector<int64_t> ranges_;  // by entry
  std::vector<int64_t> cell_starts_;
  std::vector<uint32_t> short_values_;  // by cell, if all fit
  std::vector<int64_t> long_values_;
  Lists members_;  // the cells of each entry
  std::vector<int64_t> sizes_;   // values of each entry
  std::vector<int32_t> order_;   // entries by range group, then name
};

wl_range_kernels::wl_range_kernels(const wl_launches &in, const wl_launched_kernels &kernels)
    : in_(in),
      kernels_(kernels),
      paths_(in.ranges),
      cells_(kernels.kernels),
      entries_(kernels.kernels + in.ranges),
      counted_(kernels.kernels + in.ranges),
      launched_(kernels.kernels) {
  check();
  chain_kernels();
  find_orderly_threads();
  sweep();
  sort_into_cells();
  assemble();
  in_ = {};
  kernels_ = {};
}

void wl_range_kernels::check() const {
  warpline::check_launches(in_);
  warpline::require(kernels_.kernels >= 0 && kernels_.range_groups >= 0);
  if (kernels_.kernels > INT32_MAX) throw warpline::Failure(WL_TOO_MANY, "");
  // Groups are followed by one for each root; see `assemble`.
  if (int64_t{kernels_.range_groups} + roots() > INT32_MAX) {
    throw warpline::Failure(WL_TOO_MANY, "");
  }
  const bool has_kernels = kernels_.call && kernels_.name && kernels_.value;
  warpline::require(kernels_.kernels == 0 || has_kernels);
  warpline::require(in_.ranges == 0 || kernels_.range_group);
  for (int64_t row = 0; row < in_.ranges; ++row) {
    const int32_t group = kernels_.range_group[row];
    warpline::require(group >= 0 && group < kernels_.range_groups);
  }
}

// Lists the kernels of each call; several if it launched a CUDA graph.
void wl_range_kernels::chain_kernels() {
  head_.assign(static_cast<std::size_t>(in_.calls), -1);
  next_.resize(static_cast<std::size_t>(kernels_.kernels));
  for (int64_t kernel = kernels_.kernels - 1; kernel >= 0; --kernel) {
    const int32_t call = kernels_.call[kernel];
    const auto at = static_cast<std::size_t>(kernel);
    warpline::require(call >= -1 && call < in_.calls && kernels_.name[kernel] >= 0);
    if (call < 0) {
      next_[at] = cells_.add(0, kernels_.name[kernel]);
    } else {
      next_[at] = std::exchange(head_[static_cast<std::size_t>(call)], static_cast<int32_t>(kernel));
    }
  }
}

// Threads whose launching calls end in the order in which they start, as nearly all do.
void wl_range_kernels::find_orderly_threads() {
  is_orderly_.assign(static_cast<std::size_t>(in_.threads), 1);
  std::vector<int64_t> latest(static_cast<std::size_t>(in_.threads), kNever);
  for (int64_t call = 0; call < in_.calls; ++call) {
    if (head_[static_cast<std::size_t>(call)] < 0 || in_.call_thread[call] < 0) continue;
    const auto thread = static_cast<std::size_t>(in_.call_thread[call]);
    if (in_.call_end[call] < latest[thread]) is_orderly_[thread] = 0;
    latest[thread] = std::max(latest[thread], in_.call_end[call]);
  }
}

void wl_range_kernels::sweep() {
  const auto has_kernels = [&](int64_t call) { return head_[static_cast<std::size_t>(call)] >= 0; };
  const auto make = [&](int64_t row) {
    return KernelRange{in_.range_start[row], in_.range_end[row], 0, static_cast<int32_t>(row), 0};
  };
  warpline::sweep_calls<KernelRange>(
      in_, has_kernels, make, [&](int64_t call, warpline::OpenRanges<KernelRange> &open) {
        const int32_t thread = in_.call_thread[call];
        const int64_t end = in_.call_end[call];
        const int32_t path = open.all_reach(end) ? path_around(thread, open)
                                                 : path_reaching(thread, open.ranges(), end);
        int32_t kernel = head_[static_cast<std::size_t>(call)];
        while (kernel >= 0) {
          const int32_t name = kernels_.name[kernel];
          count_ranges(call, name, open.ranges());
          const int32_t cell = cells_.add(path, name);
          kernel = std::exchange(next_[static_cast<std::size_t>(kernel)], cell);
        }
      });
  // What is launched on no known thread.
  for (int64_t call = 0; call < in_.calls; ++call) {
    if (in_.call_thread[call] >= 0) continue;
    int32_t kernel = head_[static_cast<std::size_t>(call)];
    while (kernel >= 0) {
      const int32_t cell = cells_.add(0, kernels_.name[kernel]);
      kernel = std::exchange(next_[static_cast<std::size_t>(kernel)], cell);
    }
  }
  head_ = {};
}

// Returns the path of all open ranges.
int32_t wl_range_kernels::path_around(int32_t thread, warpline::OpenRanges<KernelRange> &open) {
  std::vector<KernelRange> &ranges = open.ranges();
  std::size_t i = open.unchanged();
  int32_t path = i == 0 ? root_of(thread) : ranges[i - 1].path;
  for (; i < ranges.size(); ++i) path = ranges[i].path = path_inside(path, ranges[i].row);
  open.keep();
  return path;
}

// Returns the path of the open ranges that end at `end` or later: the others end during the call.
int32_t wl_range_kernels::path_reaching(int32_t thread, const std::vector<KernelRange> &open,
                                        int64_t end) {
  int32_t path = root_of(thread);
  for (const KernelRange &range : open) {
    if (range.end >= end) path = path_inside(path, range.row);
  }
  return path;
}

// Counts the ranges for which this is the first kernel of its name.
//
// Ranges are in order of their starts. One that opened before the latest launch of the name contains
// that launch, too: it contains this one, which ends no earlier. So do all those below.
void wl_range_kernels::count_ranges(int64_t call, int32_t name,
                                    const std::vector<KernelRange> &open) {
  const int32_t thread = in_.call_thread[call];
  const bool is_orderly = is_orderly_[static_cast<std::size_t>(thread)] != 0;
  const auto launched = static_cast<std::size_t>(launched_.add(thread, name));
  if (launched == launched_at_.size()) launched_at_.push_back(kNever);
  const int64_t before = std::exchange(launched_at_[launched], in_.call_start[call]);
  for (std::size_t i = open.size(); i-- > 0;) {
    const KernelRange &range = open[i];
    if (range.end < in_.call_end[call]) continue;
    if (is_orderly) {
      if (range.start <= before) return;
    } else {
      const auto known = counted_.size();
      if (static_cast<std::size_t>(counted_.add(range.row, name)) < known) continue;
    }
    const auto entry = static_cast<std::size_t>(entries_.add(kernels_.range_group[range.row], name));
    if (entry == ranges_.size()) ranges_.push_back(0);
    ++ranges_[entry];
  }
}

void wl_range_kernels::sort_into_cells() {
  cell_starts_.assign(cells_.size() + 1, 0);
  int64_t low = 0;
  int64_t high = 0;
  for (int64_t kernel = 0; kernel < kernels_.kernels; ++kernel) {
    ++cell_starts_[static_cast<std::size_t>(next_[static_cast<std::size_t>(kernel)]) + 1];
    low = std::min(low, kernels_.value[kernel]);
    high = std::max(high, kernels_.value[kernel]);
  }
  std::partial_sum(cell_starts_.begin(), cell_starts_.end(), cell_starts_.begin());
  std::vector<int64_t> place(cell_starts_.begin(), cell_starts_.end() - 1);
  const auto scatter = [&](auto &values) {
    values.resize(static_cast<std::size_t>(kernels_.kernels));
    for (int64_t kernel = 0; kernel < kernels_.kernels; ++kernel) {
      const auto cell = static_cast<std::size_t>(next_[static_cast<std::size_t>(kernel)]);
      const auto value = kernels_.value[kernel];
      using Value = typename std::decay_t<decltype(values)>::value_type;
      values[static_cast<std::size_t>(place[cell]++)] = static_cast<Value>(value);
    }
  };
  if (low < 0 || high > std::numeric_limits<uint32_t>::max()) {
    scatter(long_values_);
  } else {
    scatter(short_values_);
  }
  next_ = {};
}

// Makes the groups of their cells. The kernels of a root are outside all ranges; their group follows
// those of ranges.
void wl_range_kernels::assemble() {
  std::vector<std::pair<int32_t, int32_t>> pairs;  // entry, cell
  std::vector<int32_t> listed(static_cast<std::size_t>(kernels_.range_groups), -1);
  const auto add = [&](int32_t group, std::size_t cell) {
    const auto entry = static_cast<std::size_t>(entries_.add(group, cells_.low(cell)));
    if (entry == ranges_.size()) ranges_.push_back(0);
    pairs.emplace_back(static_cast<int32_t>(entry), static_cast<int32_t>(cell));
  };
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    int32_t path = cells_.high(cell);
    if (path < roots()) add(kernels_.range_groups + path, cell);
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

void wl_range_kernels::groups(int32_t *group, int32_t *name, int64_t *ranges,
                              int64_t *kernels) const {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const auto entry = static_cast<std::size_t>(order_[i]);
    group[i] = entries_.high(entry);
    name[i] = entries_.low(entry);
    ranges[i] = ranges_[entry];
    kernels[i] = sizes_[entry];
  }
}

void wl_range_kernels::values(int64_t first, int64_t last, int64_t *values) const {
  std::vector<int64_t> starts{0};
  for (int64_t i = first; i < last; ++i) {
    const auto entry = static_cast<std::size_t>(order_[static_cast<std::size_t>(i)]);
    starts.push_back(starts.back() + sizes_[entry]);
  }
  const auto gather = [&](std::size_t entry, int64_t *to) {
    for (int64_t i = members_.starts[entry]; i < members_.starts[entry + 1]; ++i) {
      const auto cell = static_cast<std::size_t>(members_.items[static_cast<std::size_t>(i)]);
      const auto begin = cell_starts_[cell];
      const auto end = cell_starts_[cell + 1];
      to = short_values_.empty()
               ? std::copy(long_values_.begin() + begin, long_values_.begin() + end, to)
               : std::copy(short_values_.begin() + begin, short_values_.begin() + end, to);
    }
  };
  // The slices of threads are cut by values, so groups are found by where theirs begin.
  warpline::for_each_group<std::vector<int64_t>>(
      starts.data(), static_cast<int32_t>(last - first),
      [&](std::size_t begin, std::size_t end, std::vector<int64_t> &scratch) {
        const auto at = std::upper_bound(starts.begin(), starts.end(), static_cast<int64_t>(begin));
        const auto group = first + (at - starts.begin()) - 1;
        gather(static_cast<std::size_t>(order_[static_cast<std::size_t>(group)]), values + begin);
        warpline::sort_values(values + begin, end - begin, scratch);
      });
}

extern "C" {

int32_t wl_range_kernels_open(const wl_launches *launches, const wl_launched_kernels *launched,
                              wl_range_kernels **kernels) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(launches != nullptr && launched != nullptr && kernels != nullptr);
    *kernels = new wl_range_kernels(*launches, *launched);
  });
}

void wl_range_kernels_close(wl_range_kernels *kernels) { delete kernels; }

int64_t wl_range_kernels_groups(const wl_range_kernels *kernels, int32_t *group, int32_t *name,
                                int64_t *ranges, int64_t *count) {
  if (kernels == nullptr) return -WL_BAD_ARGUMENT;
  if (group != nullptr && name != nullptr && ranges != nullptr && count != nullptr) {
    kernels->groups(group, name, ranges, count);
  }
  return kernels->group_count();
}

int32_t wl_range_kernels_values(const wl_range_kernels *kernels, int64_t first, int64_t last,
                                int64_t *values) {
  return warpline::guarded(nullptr, 0, [&] {
    warpline::require(kernels != nullptr && values != nullptr && first >= 0 && first <= last);
    warpline::require(last <= kernels->group_count());
    kernels->values(first, last, values);
  });
}

}  // extern "C"
