// Order of int64 keys.
#include <algorithm>
#include <new>
#include <vector>

#include "radix_sort.h"
#include "warpline_core.h"

namespace {

struct Keyed {
  uint64_t key;
  int64_t row;
};

void order_by_key(const int64_t *keys, std::size_t n, int64_t *order) {
  std::vector<Keyed> items(n);
  std::vector<Keyed> scratch(n);
  for (std::size_t i = 0; i < n; ++i) {
    items[i] = {warpline::ordered_bits(keys[i]), static_cast<int64_t>(i)};
  }
  warpline::radix_sort(items.data(), scratch.data(), n, [](const Keyed &item) { return item.key; });
  for (std::size_t i = 0; i < n; ++i) order[i] = items[i].row;
}

}  // namespace

extern "C" {

int32_t wl_is_sorted_i64(const int64_t *keys, int64_t n) {
  return n <= 0 || keys == nullptr || std::is_sorted(keys, keys + n);
}

int32_t wl_order_i64(const int64_t *keys, int64_t n, int64_t *order) {
  if (n < 0 || (n > 0 && (keys == nullptr || order == nullptr))) return WL_BAD_ARGUMENT;
  if (wl_is_sorted_i64(keys, n) != 0) {
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    return WL_OK;
  }
  try {
    order_by_key(keys, static_cast<std::size_t>(n), order);
    return WL_OK;
  } catch (const std::exception &) {
    return WL_NO_MEMORY;
  }
}

}  // extern "C"
