// The time that sets of operations take: busy, and from the first start to the last end.
#include <algorithm>
#include <limits>
#include <vector>

#include "boundary.h"
#include "groups.h"

using namespace warpline;

namespace {

constexpr std::size_t kFewMembers = 32;   // sorted faster than marked
constexpr int64_t kWordBits = 64;

// What the members of a set, in the order of operations, add up to.
class SetTimes {
 public:
  explicit SetTimes(const wl_operations &operations) : operations_(operations) {}

  void add(int64_t row) {
    const int64_t start = operations_.start[row];
    const int64_t end = operations_.end[row];
    if (operations_.device[row] != device_ || is_empty_) open(row);
    if (end > reach_) {
      busy_ += difference(end, std::max(start, reach_));
      reach_ = end;
    }
    last_ = std::max(last_, end);
  }

  void write(const wl_coverage &out, std::size_t set) const {
    out.busy[set] = static_cast<int64_t>(busy_);
    out.span[set] = is_empty_ ? 0 : static_cast<int64_t>(span_ + difference(reach_, from_));
    out.first[set] = is_empty_ ? 0 : first_;
    out.last[set] = is_empty_ ? 0 : last_;
  }

 private:
  // Unsigned: sums of a damaged recording's times wrap instead of being undefined.
  static uint64_t difference(int64_t end, int64_t start) {
    return static_cast<uint64_t>(end) - static_cast<uint64_t>(start);
  }

  void open(int64_t row) {
    if (!is_empty_) span_ += difference(reach_, from_);
    is_empty_ = false;
    device_ = operations_.device[row];
    from_ = reach_ = operations_.start[row];
    first_ = std::min(first_, from_);
  }

  const wl_operations &operations_;
  uint64_t busy_ = 0;
  uint64_t span_ = 0;
  int64_t from_ = 0;
  int64_t reach_ = 0;
  int64_t first_ = std::numeric_limits<int64_t>::max();
  int64_t last_ = std::numeric_limits<int64_t>::min();
  int64_t device_ = 0;
  bool is_empty_ = true;
};

// The members of one set, sorted without comparing them where they are dense: an operation is a
// bit, and the bits that are set are read in order.
class Members {
 public:
  void clear() {
    rows_.clear();
    low_ = std::numeric_limits<int32_t>::max();
    high_ = -1;
  }

  void add(int32_t row) {
    rows_.push_back(row);
    low_ = std::min(low_, row);
    high_ = std::max(high_, row);
  }

  template <typename Visit>
  void in_order(const Visit &visit) {
    const int64_t words = (int64_t{high_} - low_) / kWordBits + 1;
    if (rows_.size() < kFewMembers || words > 4 * static_cast<int64_t>(rows_.size())) {
      std::sort(rows_.begin(), rows_.end());
      for (const int32_t row : rows_) visit(row);
      return;
    }
    bits_.assign(static_cast<std::size_t>(words), 0);
    for (const int32_t row : rows_) {
      const auto bit = static_cast<uint64_t>(row - low_);
      bits_[bit / kWordBits] |= uint64_t{1} << bit % kWordBits;
    }
    for (int64_t word = 0; word < words; ++word) {
      for (uint64_t left = bits_[static_cast<std::size_t>(word)]; left != 0; left &= left - 1) {
        visit(low_ + word * kWordBits + __builtin_ctzll(left));
      }
    }
  }

 private:
  std::vector<int32_t> rows_;
  std::vector<uint64_t> bits_;
  int32_t low_ = 0;
  int32_t high_ = -1;
};

void check_sets(const wl_operations &operations, const wl_sets &sets) {
  require(operations.count >= 0 && sets.intervals >= 0 && sets.sets >= 0 && sets.members >= 0);
  require(operations.count == 0 || (operations.start && operations.end && operations.device));
  require(sets.intervals == 0 || (sets.first && sets.last));
  require(sets.members == 0 || sets.member);
  require(sets.set || sets.intervals == sets.sets);
  for (int64_t i = 0; i < sets.intervals; ++i) {
    require(sets.first[i] >= 0 && sets.last[i] <= sets.members);
  }
  for (int64_t i = 0; i < sets.members; ++i) {
    require(sets.member[i] >= 0 && sets.member[i] < operations.count);
  }
}

// The intervals by set: those of set s are at starts[s] to before starts[s + 1].
void sort_intervals(const wl_sets &sets, std::vector<int64_t> &starts,
                    std::vector<int64_t> &intervals) {
  starts.resize(static_cast<std::size_t>(sets.sets) + 1);
  require(count_groups(sets.set, sets.intervals, sets.sets, starts.data()));
  intervals.resize(static_cast<std::size_t>(sets.intervals));
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (int64_t i = 0; i < sets.intervals; ++i) {
    intervals[static_cast<std::size_t>(next[static_cast<std::size_t>(sets.set[i])]++)] = i;
  }
}

}  // namespace

extern "C" int32_t wl_coverage_i64(const wl_operations *operations, const wl_sets *sets,
                                   const wl_coverage *out) {
  return guarded(nullptr, 0, [&] {
    require(operations && sets && out);
    check_sets(*operations, *sets);
    require(sets->sets == 0 || (out->busy && out->span && out->first && out->last));
    std::vector<int64_t> starts;
    std::vector<int64_t> intervals;
    if (sets->set) sort_intervals(*sets, starts, intervals);
    Members members;
    for (int32_t set = 0; set < sets->sets; ++set) {
      const auto place = static_cast<std::size_t>(set);
      const int64_t begin = sets->set ? starts[place] : set;
      const int64_t end = sets->set ? starts[place + 1] : int64_t{set} + 1;
      members.clear();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t own = sets->set ? intervals[static_cast<std::size_t>(i)] : i;
        for (int64_t k = sets->first[own]; k < sets->last[own]; ++k) members.add(sets->member[k]);
      }
      SetTimes times(*operations);
      members.in_order([&](int64_t row) { times.add(row); });
      times.write(*out, place);
    }
  });
}
