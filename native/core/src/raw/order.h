// Brings rows into the total order of their table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "growing.h"
#include "radix_sort.h"

namespace warpline {

struct Keyed {
  uint64_t key;
  uint32_t row;
};

// Returns the rows of the items, keys ascending; rows with equal keys stay as they were.
inline std::vector<uint32_t> rows_of(std::vector<Keyed> &items) {
  std::vector<Keyed> scratch(items.size());
  radix_sort(items.data(), scratch.data(), items.size(), [](const Keyed &k) { return k.key; });
  std::vector<uint32_t> rows(items.size());
  std::transform(items.begin(), items.end(), rows.begin(), [](const Keyed &k) { return k.row; });
  return rows;
}

// Calls take(begin, end) for each run of two or more rows with equal times.
template <typename TimeOf, typename Take>
void for_ties(const std::vector<uint32_t> &rows, const TimeOf &time_of, const Take &take) {
  for (std::size_t run = 0; run < rows.size();) {
    const int64_t time = time_of(rows[run]);
    std::size_t end = run + 1;
    while (end < rows.size() && time_of(rows[end]) == time) ++end;
    if (end - run > 1) take(run, end);
    run = end;
  }
}

// Sorts each run of rows with equal times by `is_before`.
template <typename TimeOf, typename Before>
void sort_ties(std::vector<uint32_t> &rows, const TimeOf &time_of, const Before &is_before) {
  for_ties(rows, time_of, [&](std::size_t begin, std::size_t end) {
    std::stable_sort(&rows[begin], &rows[end - 1] + 1, is_before);
  });
}

// Merges stretches whose times ascend: row_at(place) is the row at a place, and equal times stay in
// the order of places. `ends` has the end of each stretch, and each begins where the one before it
// ends.
template <typename RowAt, typename TimeOf>
std::vector<uint32_t> merge_by_time(const RowAt &row_at, const TimeOf &time_of,
                                    const std::vector<uint32_t> &ends) {
  struct Next {
    int64_t time;
    uint32_t place;
    uint32_t end;
    bool operator>(const Next &other) const {
      return time != other.time ? time > other.time : place > other.place;
    }
  };
  std::vector<Next> heap;
  for (std::size_t stretch = 0; stretch < ends.size(); ++stretch) {
    const uint32_t begin = stretch == 0 ? 0 : ends[stretch - 1];
    heap.push_back({time_of(row_at(begin)), begin, ends[stretch]});
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  std::vector<uint32_t> order;
  order.reserve(ends.empty() ? 0 : ends.back());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    Next next = heap.back();
    heap.pop_back();
    // Most often the stretch goes on before another one comes.
    const bool is_last = heap.empty();
    do {
      order.push_back(row_at(next.place++));
      if (next.place == next.end) break;
      next.time = time_of(row_at(next.place));
    } while (is_last || heap.front() > next);
    if (next.place == next.end) continue;
    heap.push_back(next);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return order;
}

// Returns the ends of stretches whose times ascend, of `count` rows; more than `most` of them are
// not looked for.
template <typename Row, typename TimeOf>
std::vector<uint32_t> stretches(std::size_t count, const Row &row_at, const TimeOf &time_of,
                                std::size_t most) {
  std::vector<uint32_t> ends;
  if (count == 0) return ends;
  int64_t last = time_of(row_at(0));
  for (std::size_t place = 1; place < count && ends.size() <= most; ++place) {
    const auto at = static_cast<uint32_t>(place);
    const int64_t time = time_of(row_at(at));
    if (time < last) ends.push_back(at);
    last = time;
  }
  if (ends.size() <= most) ends.push_back(static_cast<uint32_t>(count));
  return ends;
}

// Returns rows whose times ascend within blocks.
template <typename TimeOf>
std::vector<uint32_t> by_time_in_blocks(std::size_t count, const TimeOf &time_of) {
  constexpr std::size_t kBlockRows = std::size_t{1} << 16;
  std::vector<uint32_t> rows;
  rows.reserve(count);
  std::vector<Keyed> items, scratch(std::min(count, kBlockRows));
  for (std::size_t first = 0; first < count; first += kBlockRows) {
    items.clear();
    for (std::size_t row = first; row < std::min(first + kBlockRows, count); ++row) {
      const auto number = static_cast<uint32_t>(row);
      items.push_back({ordered_bits(time_of(number)), number});
    }
    radix_sort(items.data(), scratch.data(), items.size(), [](const Keyed &k) { return k.key; });
    for (const Keyed &item : items) rows.push_back(item.row);
  }
  return rows;
}

// Returns the rows with times ascending, by time_of(row); rows with equal times stay as they were.
template <typename TimeOf>
std::vector<uint32_t> rows_by_time(std::size_t count, const TimeOf &time_of) {
  // Each log is in order of time, and merging needs less time and memory than sorting. Work on
  // devices is nearly so: what CUPTI returns together is not ordered, but hardly overlaps the rest.
  constexpr std::size_t kMostStretches = 256;
  const auto same = [](uint32_t place) { return place; };
  const std::vector<uint32_t> ends = stretches(count, same, time_of, kMostStretches);
  if (ends.size() <= kMostStretches) return merge_by_time(same, time_of, ends);
  std::vector<uint32_t> sorted = by_time_in_blocks(count, time_of);
  const auto row_at = [&](uint32_t place) { return sorted[place]; };
  const std::vector<uint32_t> merged = stretches(count, row_at, time_of, count);
  return merged.size() == 1 ? sorted : merge_by_time(row_at, time_of, merged);
}

// The same by time_of(rows[row]).
template <typename Rows, typename TimeOf>
std::vector<uint32_t> by_time(const Rows &rows, const TimeOf &time_of) {
  return rows_by_time(rows.size(), [&](uint32_t row) { return time_of(rows[row]); });
}

// A function that is called by its address, whatever it is: what takes it is compiled once for all.
template <typename Signature>
class Called;
template <typename Result, typename... Arguments>
class Called<Result(Arguments...)> {
 public:
  // It refers to the function, which must outlive it.
  template <typename Function>
  explicit Called(const Function &function)
      : function_(&function), call_([](const void *which, Arguments... arguments) -> Result {
          return (*static_cast<const Function *>(which))(arguments...);
        }) {}

  Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

 private:
  const void *function_;
  Result (*call_)(const void *, Arguments...);
};

// Moves the rows themselves into an order, without a second copy of them; uses the order up.
// `get(place)` is what stands at a place, and `set(place, row)` puts it there.
template <typename Get, typename Set>
void apply_order(std::vector<uint32_t> order, const Get &get, const Set &set) {
  for (uint32_t begin = 0; begin < order.size(); ++begin) {
    if (order[begin] == begin) continue;
    const auto moved = get(begin);
    uint32_t place = begin;
    while (order[place] != begin) {
      const uint32_t from = std::exchange(order[place], place);
      set(place, get(from));
      place = from;
    }
    order[place] = place;
    set(place, moved);
  }
}

template <typename Row>
void apply_order(Growing<Row> &rows, std::vector<uint32_t> order) {
  apply_order(std::move(order), [&](uint32_t place) { return rows[place]; },
              [&](uint32_t place, const Row &row) { rows[place] = row; });
}

// Sorts rows by a time, and those of equal times by `key`, which returns something comparable. Many
// tables are sorted so, and compiling all of it for each took a tenth of the time of the whole build.
template <typename Rows, typename TimeOf, typename Key>
void sort_rows(Rows &rows, const TimeOf &time_of, const Key &key) {
  const auto is_before = [&](std::size_t a, std::size_t b) {
    const int64_t left = time_of(rows[a]);
    const int64_t right = time_of(rows[b]);
    return left != right ? left < right : key(rows[a]) < key(rows[b]);
  };
  std::size_t sorted = 1;
  while (sorted < rows.size() && !is_before(sorted, sorted - 1)) ++sorted;
  if (sorted >= rows.size()) return;
  const auto time_at = [&](uint32_t row) { return time_of(rows[row]); };
  const auto is_less = [&](uint32_t a, uint32_t b) { return key(rows[a]) < key(rows[b]); };
  const Called<int64_t(uint32_t)> time(time_at);
  std::vector<uint32_t> order = rows_by_time(rows.size(), time);
  sort_ties(order, time, Called<bool(uint32_t, uint32_t)>(is_less));
  apply_order(rows, std::move(order));
}

}  // namespace warpline
