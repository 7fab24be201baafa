// Columns with few distinct values, as their numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "dense_ids.h"
#include "warpline_core.h"

namespace warpline {

// The distinct values of a column in order of first appearance: integers, or texts by their bytes.
// It is full when there are more than the caller has room for, or when they defeat the hash table.
class DistinctValues {
 public:
  DistinctValues(const wl_sqlite_column &column, int64_t rows)
      : is_text_(column.kind == WL_KIND_TEXT_CODES),
        room_(column.distinct_bytes_room),
        ids_(rows, WL_MOST_DISTINCT) {}

  bool is_full() const { return is_full_; }
  std::size_t count() const { return ids_.keys().size(); }
  int64_t integer(std::size_t id) const { return ids_.keys()[id]; }
  std::string_view text(std::size_t id) const {
    return std::string_view(bytes_).substr(ends_[id], ends_[id + 1] - ends_[id]);
  }

  int32_t add(int64_t value) {
    if (value != last_ || last_id_ < 0) {  // neighbours are often equal
      last_id_ = checked(ids_.add(value));
      last_ = value;
    }
    return last_id_;
  }

  int32_t add(std::string_view value) {
    const std::size_t known = count();
    const int32_t id = checked(ids_.add(hash(value)));
    if (is_full_) return 0;
    const auto place = static_cast<std::size_t>(id);
    if (place == known) {
      bytes_.append(value);
      ends_.push_back(bytes_.size());
      is_full_ = bytes_.size() > static_cast<std::size_t>(room_);
    } else if (text(place) != value) {
      is_full_ = true;  // two texts with one hash
    }
    return id;
  }

  // Adds the values of another one, and returns what its numbers are here.
  std::vector<int32_t> add_all(const DistinctValues &other) {
    std::vector<int32_t> numbers(other.count());
    is_full_ = is_full_ || other.is_full_;
    for (std::size_t id = 0; id < numbers.size() && !is_full_; ++id) {
      numbers[id] = is_text_ ? add(other.text(id)) : add(other.integer(id));
    }
    return numbers;
  }

  // Hands the values to the caller, integers ascending, and returns the final numbers.
  std::vector<int32_t> finish(wl_sqlite_column &column) const {
    column.distinct_count = is_full_ ? -1 : static_cast<int64_t>(count());
    if (is_full_) return {};
    std::vector<int32_t> order(count());
    std::iota(order.begin(), order.end(), 0);
    if (is_text_) {
      std::copy(ends_.begin(), ends_.end(), column.distinct);
      std::memcpy(column.distinct_bytes, bytes_.data(), bytes_.size());
      return order;
    }
    const std::vector<int64_t> &keys = ids_.keys();
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
    });
    std::vector<int32_t> rank(count());
    for (std::size_t i = 0; i < order.size(); ++i) {
      column.distinct[i] = keys[static_cast<std::size_t>(order[i])];
      rank[static_cast<std::size_t>(order[i])] = static_cast<int32_t>(i);
    }
    return rank;
  }

 private:
  int32_t checked(int32_t id) {
    is_full_ = is_full_ || id < 0;
    return is_full_ ? 0 : id;
  }

  // Eight bytes at a time through a multiply and a fold, as texts are short.
  static int64_t hash(std::string_view text) {
    uint64_t hash = 0x9e3779b97f4a7c15U ^ text.size();
    for (std::size_t at = 0; at < text.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
      hash = (hash ^ word) * 0xff51afd7ed558ccdU;
      hash ^= hash >> 32;
    }
    return static_cast<int64_t>(hash);
  }

  bool is_text_;
  bool is_full_ = false;
  int64_t room_;
  int64_t last_ = 0;
  int32_t last_id_ = -1;  // of last_; negative: there is none
  DenseIds ids_;
  std::string bytes_;
  std::vector<std::size_t> ends_{0};
};

}  // namespace warpline
