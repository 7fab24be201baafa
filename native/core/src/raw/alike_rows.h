// Rows of which a recording has many that differ in their times and correlation only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "growing.h"
#include "raw/order.h"

namespace warpline {

// A row takes 20 bytes. What else it has is stored once for all rows that are alike: a program has
// few shapes of kernels. Rows are read and written as a whole, as if they were stored so.
template <typename Row>
class AlikeRows {
  static_assert(std::has_unique_object_representations_v<Row>, "compared by its bytes");
  static_assert(sizeof(Row) % sizeof(uint64_t) == 0);

 public:
  std::size_t size() const { return moments_.size(); }
  bool empty() const { return size() == 0; }

  // Inlined, so that of a row only what is used is made.
  [[gnu::always_inline]] Row operator[](std::size_t place) const {
    const Moment moment = moments_[place];
    Row row = shared_[numbers_[place]];
    // A shared row begins at 0, and ends where its rows' lengths have more than 32 bits.
    const auto high = static_cast<uint64_t>(row.end_ns) << 32;
    row.start_ns = moment.start_ns;
    row.end_ns = row.start_ns + static_cast<int64_t>(high | moment.length_low);
    row.correlation = moment.correlation;
    return row;
  }

  void push_back(const Row &row) {
    moments_.push(moment_of(row));
    numbers_.push(number_of(row));
  }
  void put(std::size_t place, const Row &row) {
    moments_[place] = moment_of(row);
    numbers_[place] = number_of(row);
  }

  // What rows share, which shared_number counts from 0: rows without times and correlation.
  std::size_t shared_size() const { return shared_.size(); }
  uint32_t shared_number(std::size_t place) const { return numbers_[place]; }
  template <typename Look>
  void for_shared(const Look &look) const {
    for (std::size_t number = 0; number < shared_.size(); ++number) look(shared_[number]);
  }

  // Calls change(row) for what rows share. No row can be added or written after that.
  template <typename Change>
  void change_shared(const Change &change) {
    slots_ = {};
    for (std::size_t number = 0; number < shared_.size(); ++number) change(shared_[number]);
  }

  // Moves rows into an order; uses the order up.
  friend void apply_order(AlikeRows &rows, std::vector<uint32_t> order) {
    apply_order(
        std::move(order),
        [&](uint32_t place) { return std::pair(rows.moments_[place], rows.numbers_[place]); },
        [&](uint32_t place, const std::pair<Moment, uint32_t> &row) {
          std::tie(rows.moments_[place], rows.numbers_[place]) = row;
        });
  }

  class Iterator {
   public:
    Iterator(const AlikeRows &rows, std::size_t place) : rows_(&rows), place_(place) {}
    [[gnu::always_inline]] Row operator*() const { return (*rows_)[place_]; }
    Iterator &operator++() {
      ++place_;
      return *this;
    }
    bool operator!=(const Iterator &other) const { return place_ != other.place_; }

   private:
    const AlikeRows *rows_;
    std::size_t place_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  struct Moment {
    int64_t start_ns;
    uint32_t length_low;
    uint32_t correlation;
  };

  using Words = std::array<uint64_t, sizeof(Row) / sizeof(uint64_t)>;

  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kFewestSlots = 1U << 10;
  static constexpr std::size_t kMostSlots = 1U << 22;
  static constexpr std::size_t kLooks = 16;

  static uint64_t length_of(const Row &row) {
    return static_cast<uint64_t>(row.end_ns) - static_cast<uint64_t>(row.start_ns);
  }

  static Moment moment_of(const Row &row) {
    return {row.start_ns, static_cast<uint32_t>(length_of(row)), row.correlation};
  }

  static std::size_t hash_of(const Words &words) {
    uint64_t hash = 0;
    for (const uint64_t word : words) {
      hash = (std::rotl(hash, 23) ^ word) * 0x9e3779b97f4a7c15;
    }
    return static_cast<std::size_t>(hash >> 32);
  }

  // Few looks, even if a log was made so that all rows meet at one slot: one that is not found is
  // stored again.
  uint32_t number_of(Row row) {
    row.end_ns = static_cast<int64_t>(length_of(row) >> 32);
    row.start_ns = 0;
    row.correlation = 0;
    if (shared_.size() * 2 >= slots_.size() && slots_.size() < kMostSlots) grow();
    const auto words = std::bit_cast<Words>(row);
    const std::size_t first = hash_of(words);
    for (std::size_t look = 0; look < kLooks; ++look) {
      uint32_t &slot = slots_[(first + look) & (slots_.size() - 1)];
      if (slot == kNone) return slot = add(row);
      if (std::bit_cast<Words>(shared_[slot]) == words) return slot;
    }
    return slots_[first & (slots_.size() - 1)] = add(row);
  }

  uint32_t add(const Row &row) {
    shared_.push(row);
    return static_cast<uint32_t>(shared_.size() - 1);
  }

  void grow() {
    slots_.assign(std::max(kFewestSlots, slots_.size() * 4), kNone);
    for (std::size_t number = 0; number < shared_.size(); ++number) {
      const std::size_t first = hash_of(std::bit_cast<Words>(shared_[number]));
      for (std::size_t look = 0; look < kLooks; ++look) {
        uint32_t &slot = slots_[(first + look) & (slots_.size() - 1)];
        if (slot != kNone) continue;
        slot = static_cast<uint32_t>(number);
        break;
      }
    }
  }

  Growing<Moment> moments_;
  Growing<uint32_t> numbers_;  // of shared rows, apart: most columns need nothing else
  Growing<Row> shared_;
  std::vector<uint32_t> slots_;  // by a hash: numbers of shared rows
};

}  // namespace warpline
