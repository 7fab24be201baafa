// Keys -> numbers in order of first appearance.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace warpline {

// A hash table by open addressing.
class DenseIds {
 public:
  // Probing stays linear in the number of keys, `n`, for all but keys chosen to collide.
  DenseIds(int64_t n, int64_t max_uniques)
      : probes_left_(int64_t{16} * n + 4096),
        max_uniques_(std::min<int64_t>(max_uniques, std::numeric_limits<int32_t>::max())) {
    resize(1024);
  }

  // Returns the key's number, or -1 if there are too many keys or they collide too often.
  int32_t add(int64_t key) {
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      Slot &slot = slots_[at];
      if (slot.id == kFree) return insert(slot, key);
      if (slot.key == key) return slot.id;
      if (--probes_left_ < 0) return -1;
    }
  }

  static constexpr int32_t kTooHard = -2;

  // Returns the key's number, -1 if it was not added, or kTooHard if keys collide too often.
  int32_t find(int64_t key) {
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      const Slot &slot = slots_[at];
      if (slot.id == kFree || slot.key == key) return slot.id;
      if (--probes_left_ < 0) return kTooHard;
    }
  }

  const std::vector<int64_t> &keys() const { return keys_; }

 private:
  static constexpr int32_t kFree = -1;
  struct Slot {
    int64_t key;
    int32_t id;
  };

  std::size_t home(int64_t key) const {
    // Fibonacci hashing: the high bits of the product depend on every bit of the key.
    uint64_t mixed = static_cast<uint64_t>(key);
    mixed ^= mixed >> 32;
    return static_cast<std::size_t>(mixed * 0x9e3779b97f4a7c15U >> shift_);
  }

  int32_t insert(Slot &slot, int64_t key) {
    const auto id = static_cast<int64_t>(keys_.size());
    if (id >= max_uniques_) return -1;
    slot = {key, static_cast<int32_t>(id)};
    keys_.push_back(key);
    if (keys_.size() * 2 > slots_.size()) resize(slots_.size() * 4);
    return static_cast<int32_t>(id);
  }

  void resize(std::size_t size) {
    slots_.assign(size, Slot{0, kFree});
    mask_ = size - 1;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
    for (std::size_t id = 0; id < keys_.size(); ++id) {
      std::size_t at = home(keys_[id]);
      while (slots_[at].id != kFree) {
        at = (at + 1) & mask_;
        --probes_left_;
      }
      slots_[at] = {keys_[id], static_cast<int32_t>(id)};
    }
  }

  int64_t probes_left_;
  int64_t max_uniques_;
  std::size_t mask_ = 0;
  unsigned shift_ = 0;
  std::vector<Slot> slots_;
  std::vector<int64_t> keys_;
};

}  // namespace warpline
