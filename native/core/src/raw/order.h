// Brings rows into the total order of their table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Sorts each run of rows with equal times by `is_before`.
template <typename TimeOf, typename Before>
void sort_ties(std::vector<uint32_t> &rows, const TimeOf &time_of, const Before &is_before) {
  for (auto run = rows.begin(); run != rows.end();) {
    const auto end = std::find_if(run + 1, rows.end(), [&](uint32_t row) {
      return time_of(row) != time_of(*run);
    });
    if (end - run > 1) std::stable_sort(run, end, is_before);
    run = end;
  }
}

template <typename Row, typename TimeOf>
std::vector<uint32_t> by_time(const std::vector<Row> &rows, const TimeOf &time_of) {
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
