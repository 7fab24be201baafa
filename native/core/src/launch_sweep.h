// Ranges, calls and what calls launched, as blocks of rows: one pass over all in order of time.
//
// Operations come first and are kept by correlation id. Ranges and calls pass by: what stays of them
// are the open ranges, and the rows of a block that have to wait for the next one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "boundary.h"
#include "dense_ids.h"
#include "failure.h"
#include "growing.h"
#include "warpline_core.h"

namespace warpline {

inline int64_t pair_key(int32_t high, int32_t low) {
  return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low));
}

// A value for each correlation id of a process. Ids are dense in recordings, so values lie in pages
// of neighbours; ids that are too far apart are a Failure.
template <typename Value>
class ByCorrelation {
 public:
  // rows: how many ids may be asked for.
  ByCorrelation(int64_t rows, Value nothing) : nothing_(nothing), ids_(rows, INT32_MAX) {}

  // Returns the value of an id, which is `nothing` at first.
  Value &at(int32_t process, int64_t correlation) {
    ++added_;
    const int64_t key = key_of(process, correlation);
    if (key < 0) throw Failure(WL_TOO_MANY, "");
    if (key != last_key_) {  // neighbours in time have neighbouring ids
      const int32_t page = ids_.add(key);
      if (page < 0) throw Failure(WL_TOO_MANY, "");
      turn_to(key, page);
    }
    if (last_ == pages_.size()) {
      if (static_cast<int64_t>(last_) > kFewPages + added_ / kLeastPerPage) {
        throw Failure(WL_TOO_MANY, "");
      }
      pages_.push_back(std::make_unique<Page>());
      pages_.back()->fill(nothing_);
    }
    return (*pages_[last_])[place_of(correlation)];
  }

  // Returns the value of an id and forgets it.
  Value take(int32_t process, int64_t correlation) {
    const int64_t key = key_of(process, correlation);
    if (key < 0) return nothing_;
    if (key != last_key_) {
      const int32_t page = ids_.find(key);
      if (page == DenseIds::kTooHard) throw Failure(WL_TOO_MANY, "");
      if (page < 0) return nothing_;
      turn_to(key, page);
    }
    return std::exchange((*pages_[last_])[place_of(correlation)], nothing_);
  }

  template <typename OnValue>
  void for_each(const OnValue &on_value) const {
    for (const std::unique_ptr<Page> &page : pages_) {
      std::for_each(page->begin(), page->end(), on_value);
    }
  }

  void clear() { pages_.clear(); }

 private:
  static constexpr int kPageBits = 12;
  static constexpr std::size_t kPageValues = std::size_t{1} << kPageBits;
  static constexpr int64_t kFewPages = 64;
  static constexpr int64_t kLeastPerPage = 64;  // else another way needs less memory
  using Page = std::array<Value, kPageValues>;

  static std::size_t place_of(int64_t correlation) {
    return static_cast<std::size_t>(correlation) & (kPageValues - 1);
  }

  // The key of a page, or a negative number for ids that no page has.
  static int64_t key_of(int32_t process, int64_t correlation) {
    const int64_t number = correlation >> kPageBits;
    if (number < 0 || number > std::numeric_limits<int32_t>::max()) return -1;
    return pair_key(process, static_cast<int32_t>(number));
  }

  void turn_to(int64_t key, int32_t page) {
    last_key_ = key;
    last_ = static_cast<std::size_t>(page);
  }

  Value nothing_;
  int64_t added_ = 0;
  int64_t last_key_ = -1;
  std::size_t last_ = 0;
  DenseIds ids_;
  std::vector<std::unique_ptr<Page>> pages_;
};

// Whole numbers, in half of the memory until one of them is negative or large.
class Durations {
 public:
  void push(int64_t value) {
    if (is_short_) {
      if (value >= 0 && value <= std::numeric_limits<uint32_t>::max()) {
        short_.push(static_cast<uint32_t>(value));
        return;
      }
      widen();
    }
    long_.push(value);
  }

  std::size_t size() const { return is_short_ ? short_.size() : long_.size(); }
  int64_t operator[](std::size_t i) const { return is_short_ ? short_[i] : long_[i]; }
  bool is_short() const { return is_short_; }
  int64_t *copy(int64_t *to) const {
    return is_short_ ? std::copy(short_.begin(), short_.end(), to)
                     : std::copy(long_.begin(), long_.end(), to);
  }

 private:
  void widen() {
    for (const uint32_t value : short_) long_.push(value);
    short_ = {};
    is_short_ = false;
  }

  bool is_short_ = true;
  Growing<uint32_t> short_;
  Growing<int64_t> long_;
};

struct SweptRange {
  int64_t start;
  int64_t end;
  int64_t id;
  int32_t thread;
  int32_t group;
};

struct SweptCall {
  int64_t start;
  int64_t end;
  int64_t correlation;
  int32_t thread;   // -1: not known
  int32_t process;  // -1: has no correlation id
};

}  // namespace warpline

// What both kinds of sweep have in common. What they make of operations, ranges and calls is theirs.
struct wl_range_sweep {
 public:
  wl_range_sweep(int64_t rows, int32_t threads, int32_t processes);
  virtual ~wl_range_sweep() = default;

  virtual void add_operations(const wl_operation_rows &rows) = 0;
  void add_ranges(const wl_range_rows &rows);
  void add_calls(const wl_call_rows &rows);
  void finish();

  virtual int64_t group_count() const = 0;
  virtual void groups(int64_t *columns) const = 0;
  // Ascending in each group, groups from `first` to before `last`.
  void values(int64_t first, int64_t last, int64_t *values) const;

 protected:
  void check(const wl_operation_rows &rows) const;

  // Ranges start in order; of those that start together the longest comes first, then by id.
  virtual void open(const warpline::SweptRange &range) = 0;
  // Calls likewise, by thread instead of id: the first with an id has launched what has that id.
  virtual void launch(const warpline::SweptCall &call) = 0;
  virtual void assemble() = 0;
  virtual int64_t size_of(std::size_t group) const = 0;
  virtual void gather(std::size_t group, int64_t *values) const = 0;

  int32_t threads_;

 private:
  void open_until(int64_t now);
  void launch_held();

  int32_t processes_;
  int64_t last_range_;  // when the latest one starts
  int64_t last_call_;
  std::size_t opened_ = 0;
  std::vector<warpline::SweptRange> ranges_;  // not opened yet, from `opened_` on
  std::vector<warpline::SweptCall> held_;     // start together, maybe with those of the next block
};

namespace warpline {

// rows: how many operations, ranges and calls there are.
std::unique_ptr<wl_range_sweep> make_kernel_sweep(int64_t rows, int32_t threads,
                                                  int32_t processes);
std::unique_ptr<wl_range_sweep> make_projection_sweep(int64_t rows, int32_t threads,
                                                      int32_t processes);

}  // namespace warpline
