// Dense ids for texts, and numbers as text.
#include <charconv>
#include <cstring>
#include <exception>
#include <vector>

#include "warpline_core.h"

namespace {

struct Slot {
  uint64_t hash;
  int32_t id;  // -1: free
};

// Eight bytes at a time through a multiply and a fold; texts are short and few are distinct.
uint64_t hash_text(const uint8_t *text, std::size_t length) {
  uint64_t hash = 0x9e3779b97f4a7c15U ^ length;
  while (length >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, text, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
    text += 8;
    length -= 8;
  }
  uint64_t word = 0;
  if (length != 0) std::memcpy(&word, text, length);
  hash = (hash ^ word) * 0xff51afd7ed558ccdU;
  return hash ^ (hash >> 29);
}

class Texts {
 public:
  Texts(const uint8_t *bytes, const int64_t *offsets, int64_t n, int64_t *first_rows,
        int64_t max_uniques)
      : bytes_(bytes),
        offsets_(offsets),
        first_rows_(first_rows),
        max_uniques_(max_uniques),
        // Texts chosen to collide must not make this quadratic.
        probes_left_(int64_t{16} * n + 4096),
        slots_(1024, Slot{0, -1}) {}

  int64_t count() const { return count_; }

  // Returns the number of the text of `row`, or -1 if there are too many or they collide.
  int32_t add(int64_t row) {
    const uint64_t hash = hash_text(bytes_ + offsets_[row], length(row));
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot &slot = slots_[at];
      if (slot.id < 0) return insert(at, hash, row);
      if (slot.hash == hash && equal(first_rows_[slot.id], row)) return slot.id;
      if (--probes_left_ < 0) return -1;
    }
  }

 private:
  std::size_t length(int64_t row) const {
    return static_cast<std::size_t>(offsets_[row + 1] - offsets_[row]);
  }

  bool equal(int64_t a, int64_t b) const {
    return length(a) == length(b) &&
           std::memcmp(bytes_ + offsets_[a], bytes_ + offsets_[b], length(a)) == 0;
  }

  int32_t insert(std::size_t at, uint64_t hash, int64_t row) {
    if (count_ >= max_uniques_) return -1;
    const auto id = static_cast<int32_t>(count_);
    slots_[at] = {hash, id};
    first_rows_[count_++] = row;
    if (static_cast<std::size_t>(count_) * 2 > slots_.size()) grow();
    return id;
  }

  void grow() {
    std::vector<Slot> larger(slots_.size() * 4, Slot{0, -1});
    const std::size_t mask = larger.size() - 1;
    for (const Slot &slot : slots_) {
      if (slot.id < 0) continue;
      std::size_t at = slot.hash & mask;
      while (larger[at].id >= 0) {
        at = (at + 1) & mask;
        --probes_left_;
      }
      larger[at] = slot;
    }
    slots_.swap(larger);
  }

  const uint8_t *bytes_;
  const int64_t *offsets_;
  int64_t *first_rows_;
  int64_t max_uniques_;
  int64_t probes_left_;
  int64_t count_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace

extern "C" int64_t wl_format_i64(const int64_t *values, int64_t n, uint8_t *text) {
  if (n < 0 || (n > 0 && (values == nullptr || text == nullptr))) return -WL_BAD_ARGUMENT;
  constexpr int kMaxChars = 20;  // "-9223372036854775808"
  char *const begin = reinterpret_cast<char *>(text);
  char *at = begin;
  for (int64_t i = 0; i < n; ++i) {
    at = std::to_chars(at, at + kMaxChars, values[i]).ptr;
    *at++ = '\n';
  }
  return at - begin;
}

extern "C" int64_t wl_factorize_text(const uint8_t *bytes, const int64_t *offsets,
                                     const uint8_t *valid, int64_t n, int32_t *codes,
                                     int64_t *first_rows, int64_t max_uniques) {
  if (n < 0 || max_uniques < 0 || max_uniques > INT32_MAX) return -WL_BAD_ARGUMENT;
  if (n == 0) return 0;
  if (offsets == nullptr || codes == nullptr || first_rows == nullptr) return -WL_BAD_ARGUMENT;
  if (bytes == nullptr && offsets[n] != offsets[0]) return -WL_BAD_ARGUMENT;
  try {
    Texts texts(bytes, offsets, n, first_rows, max_uniques);
    for (int64_t row = 0; row < n; ++row) {
      codes[row] = -1;
      if (valid != nullptr && valid[row] == 0) continue;
      codes[row] = texts.add(row);
      if (codes[row] < 0) return -WL_TOO_MANY;
    }
    return texts.count();
  } catch (const std::exception &) {
    return -WL_NO_MEMORY;
  }
}
