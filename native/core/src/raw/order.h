// Brings rows into the total order of their table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

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

// Merges stretches of rows whose times ascend; equal times stay in the order of their rows.
// `ends` has the end of each stretch, and each begins where the one before it ends.
template <typename Rows, typename TimeOf>
std::vector<uint32_t> merge_by_time(const Rows &rows, const TimeOf &time_of,
                                    const std::vector<uint32_t> &ends) {
  struct Next {
    int64_t time;
    uint32_t row;
    uint32_t end;
    bool operator>(const Next &other) const {
      return time != other.time ? time > other.time : row > other.row;
    }
  };
  std::vector<Next> heap;
  for (std::size_t stretch = 0; stretch < ends.size(); ++stretch) {
    const uint32_t begin = stretch == 0 ? 0 : ends[stretch - 1];
    heap.push_back({time_of(rows[begin]), begin, ends[stretch]});
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  std::vector<uint32_t> order;
  order.reserve(rows.size());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    Next next = heap.back();
    heap.pop_back();
    // Most often the stretch goes on before another one comes.
    const bool is_last = heap.empty();
    do {
      order.push_back(next.row++);
      if (next.row == next.end) break;
      next.time = time_of(rows[next.row]);
    } while (is_last || heap.front() > next);
    if (next.row == next.end) continue;
    heap.push_back(next);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return order;
}

// Returns the rows with times ascending; rows with equal times stay as they were.
template <typename Rows, typename TimeOf>
std::vector<uint32_t> by_time(const Rows &rows, const TimeOf &time_of) {
  // Each log is in order of time, and merging needs less time and memory than sorting.
  constexpr std::size_t kMostStretches = 256;
  std::vector<uint32_t> ends;
  for (std::size_t row = 1; row <= rows.size() && ends.size() <= kMostStretches; ++row) {
    if (row == rows.size() || time_of(rows[row]) < time_of(rows[row - 1])) {
      ends.push_back(static_cast<uint32_t>(row));
    }
  }
  if (ends.size() <= kMostStretches) return merge_by_time(rows, time_of, ends);
  std::vector<Keyed> items;
  items.reserve(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    items.push_back({ordered_bits(time_of(rows[row])), static_cast<uint32_t>(row)});
  }
  return rows_of(items);
}

// Moves the rows themselves into an order, without a second copy of them; uses the order up.
template <typename Row>
void apply_order(std::vector<Row> &rows, std::vector<uint32_t> order) {
  for (uint32_t begin = 0; begin < order.size(); ++begin) {
    if (order[begin] == begin) continue;
    Row moved = std::move(rows[begin]);
    uint32_t place = begin;
    while (order[place] != begin) {
      const uint32_t from = std::exchange(order[place], place);
      rows[place] = std::move(rows[from]);
      place = from;
    }
    order[place] = place;
    rows[place] = std::move(moved);
  }
}

// Sorts rows by a time, and those of equal times by `key`, which returns something comparable.
template <typename Row, typename TimeOf, typename Key>
void sort_rows(std::vector<Row> &rows, const TimeOf &time_of, const Key &key) {
  const auto is_before = [&](const Row &a, const Row &b) {
    const int64_t left = time_of(a);
    const int64_t right = time_of(b);
    return left != right ? left < right : key(a) < key(b);
  };
  if (std::is_sorted(rows.begin(), rows.end(), is_before)) return;
  std::vector<uint32_t> order = by_time(rows, time_of);
  sort_ties(order, [&](uint32_t row) { return time_of(rows[row]); },
            [&](uint32_t a, uint32_t b) { return key(rows[a]) < key(rows[b]); });
  apply_order(rows, std::move(order));
}

}  // namespace warpline
