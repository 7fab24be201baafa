// The innermost interval around each point, by one sweep over both in order of time.
#include <algorithm>
#include <limits>
#include <vector>

#include "boundary.h"

using namespace warpline;

namespace {

struct Span {
  int64_t start;
  int64_t end;
  int32_t row;
};

// The intervals in order: by start, then the longest first, then by row. They ascend by start, so
// only those that start together have to be sorted.
class InOrder {
 public:
  InOrder(const int64_t *start, const int64_t *end, int64_t n) : start_(start), end_(end), n_(n) {}

  // Calls open(interval) for the next intervals that start at `now` or before.
  template <typename Open>
  void until(int64_t now, const Open &open) {
    while (next_ < n_ && start_[next_] <= now) {
      int64_t last = next_ + 1;
      while (last < n_ && start_[last] == start_[next_]) ++last;
      together_.clear();
      for (int64_t row = next_; row < last; ++row) {
        if (end_[row] < start_[row]) throw Failure(WL_BAD_ARGUMENT, "an end before its start");
        together_.push_back({start_[row], end_[row], static_cast<int32_t>(row)});
      }
      if (together_.size() > 1) {
        std::stable_sort(together_.begin(), together_.end(),
                         [](const Span &a, const Span &b) { return a.end > b.end; });
      }
      for (const Span &span : together_) open(span);
      next_ = last;
    }
  }

 private:
  const int64_t *start_;
  const int64_t *end_;
  int64_t n_;
  int64_t next_ = 0;
  std::vector<Span> together_;
};

void close_until(std::vector<Span> &open, int64_t now) {
  while (!open.empty() && open.back().end <= now) open.pop_back();
}

}  // namespace

extern "C" int32_t wl_enclosing_i64(const int64_t *points, const int32_t *point_codes, int64_t m,
                                    const int64_t *start, const int64_t *end,
                                    const int32_t *codes, int64_t n, int32_t n_groups,
                                    int64_t *row) {
  return guarded(nullptr, 0, [&] {
    require(m >= 0 && n >= 0 && n_groups >= 0 && (m == 0 || (points && row)) &&
            (n == 0 || (start && end)) && (point_codes == nullptr) == (codes == nullptr));
    if (n > std::numeric_limits<int32_t>::max()) throw Failure(WL_TOO_MANY, "");
    if (!std::is_sorted(points, points + m) || !std::is_sorted(start, start + n)) {
      throw Failure(WL_UNSUPPORTED, "not sorted");
    }
    // The last interval to start that has not ended is the innermost one. Those below it that end
    // earlier are removed once they are on top.
    std::vector<std::vector<Span>> open(codes == nullptr ? 1 : static_cast<std::size_t>(n_groups));
    const auto of = [&](const int32_t *groups, int64_t place) -> std::vector<Span> & {
      if (groups == nullptr) return open[0];
      require(groups[place] >= 0 && groups[place] < n_groups);
      return open[static_cast<std::size_t>(groups[place])];
    };
    InOrder spans(start, end, n);
    for (int64_t point = 0; point < m; ++point) {
      const int64_t now = points[point];
      spans.until(now, [&](const Span &span) {
        std::vector<Span> &around = of(codes, span.row);
        close_until(around, span.start);
        if (span.end > span.start) around.push_back(span);
      });
      std::vector<Span> &around = of(point_codes, point);
      close_until(around, now);
      row[point] = around.empty() ? -1 : around.back().row;
    }
  });
}
