// Dense ids for keys, and values in order inside their groups.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "groups.h"
#include "radix_sort.h"
#include "warpline_core.h"

namespace {

constexpr std::size_t kMinRadixValues = 1024;  // below, a comparison sort is faster

// Key -> number in order of first appearance, by open addressing.
class DenseIds {
 public:
  // Probing stays linear in the number of keys for all but keys chosen to collide.
  DenseIds(int64_t n, int64_t max_uniques)
      : probes_left_(int64_t{16} * n + 4096), max_uniques_(max_uniques) {
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

struct Numbered {
  uint64_t key;
  int32_t id;
};

void sort_numbered(std::vector<Numbered> &items) {
  if (items.size() < kMinRadixValues) {
    std::sort(items.begin(), items.end(),
              [](const Numbered &a, const Numbered &b) { return a.key < b.key; });
    return;
  }
  std::vector<Numbered> scratch(items.size());
  warpline::radix_sort(items.data(), scratch.data(), items.size(),
                       [](const Numbered &item) { return item.key; });
}

int64_t factorize(const int64_t *keys, int64_t n, int32_t *codes, int64_t *uniques,
                  int64_t max_uniques) {
  DenseIds ids(n, std::min<int64_t>(max_uniques, std::numeric_limits<int32_t>::max()));
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = ids.add(keys[i]);
    if (codes[i] < 0) return -WL_TOO_MANY;
  }
  const std::vector<int64_t> &found = ids.keys();
  std::vector<Numbered> by_key(found.size());
  for (std::size_t id = 0; id < found.size(); ++id) {
    by_key[id] = {warpline::ordered_bits(found[id]), static_cast<int32_t>(id)};
  }
  sort_numbered(by_key);
  std::vector<int32_t> rank(found.size());
  for (std::size_t i = 0; i < by_key.size(); ++i) {
    uniques[i] = found[static_cast<std::size_t>(by_key[i].id)];
    rank[static_cast<std::size_t>(by_key[i].id)] = static_cast<int32_t>(i);
  }
  for (int64_t i = 0; i < n; ++i) codes[i] = rank[static_cast<std::size_t>(codes[i])];
  return static_cast<int64_t>(found.size());
}

void sort_values(int64_t *values, std::size_t n, std::vector<int64_t> &scratch) {
  if (n < kMinRadixValues) {
    std::sort(values, values + n);
    return;
  }
  if (scratch.size() < n) scratch.resize(n);
  warpline::radix_sort(values, scratch.data(), n, warpline::ordered_bits);
}

void group_order(const int32_t *codes, const int64_t *values, int64_t n, int32_t n_groups,
                 const int64_t *starts, int64_t *sorted_values) {
  std::vector<int64_t> next(starts, starts + n_groups);
  for (int64_t i = 0; i < n; ++i) {
    sorted_values[next[static_cast<std::size_t>(codes[i])]++] = values[i];
  }
  warpline::for_each_group<std::vector<int64_t>>(
      starts, n_groups, [&](std::size_t first, std::size_t last, std::vector<int64_t> &scratch) {
        sort_values(sorted_values + first, last - first, scratch);
      });
}

}  // namespace

extern "C" {

int64_t wl_factorize_i64(const int64_t *keys, int64_t n, int32_t *codes, int64_t *uniques,
                         int64_t max_uniques) {
  if (n < 0 || max_uniques < 0) return -WL_BAD_ARGUMENT;
  if (n == 0) return 0;
  if (keys == nullptr || codes == nullptr || uniques == nullptr) return -WL_BAD_ARGUMENT;
  try {
    return factorize(keys, n, codes, uniques, max_uniques);
  } catch (const std::exception &) {
    return -WL_NO_MEMORY;
  }
}

int32_t wl_group_order_i64(const int32_t *codes, const int64_t *values, int64_t n,
                           int32_t n_groups, int64_t *starts, int64_t *sorted_values) {
  if (n < 0 || n_groups < 0 || starts == nullptr) return WL_BAD_ARGUMENT;
  if (n > 0 && (codes == nullptr || values == nullptr || sorted_values == nullptr)) {
    return WL_BAD_ARGUMENT;
  }
  try {
    if (!warpline::count_groups(codes, n, n_groups, starts)) return WL_BAD_ARGUMENT;
    group_order(codes, values, n, n_groups, starts, sorted_values);
    return WL_OK;
  } catch (const std::exception &) {
    return WL_NO_MEMORY;
  }
}

}  // extern "C"
