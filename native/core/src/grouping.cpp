// Dense ids for keys, and values in order inside their groups.
#include <algorithm>
#include <new>
#include <vector>

#include "dense_ids.h"
#include "groups.h"
#include "radix_sort.h"
#include "warpline_core.h"

namespace {

constexpr std::size_t kMinRadixValues = 1024;  // below, a comparison sort is faster

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
  warpline::DenseIds ids(n, max_uniques);
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

void group_order(const int32_t *codes, const int64_t *values, int64_t n, int32_t n_groups,
                 const int64_t *starts, int64_t *sorted_values) {
  std::vector<int64_t> next(starts, starts + n_groups);
  for (int64_t i = 0; i < n; ++i) {
    sorted_values[next[static_cast<std::size_t>(codes[i])]++] = values[i];
  }
  warpline::for_each_group<std::vector<int64_t>>(
      starts, n_groups, [&](std::size_t first, std::size_t last, std::vector<int64_t> &scratch) {
        warpline::sort_values(sorted_values + first, last - first, scratch);
      });
}

// Adds up what each group's values are from its centre; see wl_group_squares_i64.
void add_squares(const int64_t *values, const int64_t *starts, std::size_t n_groups,
                 const int64_t *centre, uint64_t *sums) {
  constexpr uint64_t kLow32 = 0xffffffffU;
  for (std::size_t g = 0; g < n_groups; ++g) {
    uint64_t parts[6] = {};
    for (int64_t i = starts[g]; i < starts[g + 1]; ++i) {
      const auto value = static_cast<uint64_t>(values[i]);
      const auto middle = static_cast<uint64_t>(centre[g]);
      const uint64_t distance = values[i] < centre[g] ? middle - value : value - middle;
      const uint64_t low = distance & kLow32;
      const uint64_t high = distance >> 32;
      parts[0] += low * low >> 32;
      parts[1] += low * low & kLow32;
      if (high == 0) continue;
      parts[2] += high * low >> 32;
      parts[3] += high * low & kLow32;
      parts[4] += high * high >> 32;
      parts[5] += high * high & kLow32;
    }
    for (std::size_t part = 0; part < 6; ++part) sums[part * n_groups + g] = parts[part];
  }
}

}  // namespace

extern "C" {

int32_t wl_group_squares_i64(const int64_t *sorted_values, const int64_t *starts, int32_t n_groups,
                             const int64_t *centre, uint64_t *sums) {
  if (n_groups < 0 || starts == nullptr) return WL_BAD_ARGUMENT;
  if (n_groups == 0) return WL_OK;
  if (centre == nullptr || sums == nullptr) return WL_BAD_ARGUMENT;
  if (starts[n_groups] > starts[0] && sorted_values == nullptr) return WL_BAD_ARGUMENT;
  add_squares(sorted_values, starts, static_cast<std::size_t>(n_groups), centre, sums);
  return WL_OK;
}

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
