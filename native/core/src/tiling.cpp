// Intervals against other intervals: which one each time belongs to, and what lies in each span.
#include <algorithm>
#include <limits>
#include <vector>

#include "boundary.h"

namespace warpline {
namespace {

constexpr int32_t kLevels = 62;
constexpr int32_t kNoRow = -1;

// Intervals by level: chains of rows in order of their starts.
struct Chains {
  int32_t first[kLevels];
  std::vector<int32_t> next;

  Chains(const int64_t *start, const int64_t *end, const int8_t *level, int64_t n)
      : next(static_cast<std::size_t>(n)) {
    std::fill_n(first, kLevels, kNoRow);
    for (int64_t i = n - 1; i >= 0; --i) {
      if (level[i] < 0 || level[i] >= kLevels || end[i] < start[i]) {
        throw Failure(WL_BAD_ARGUMENT, "a level or an interval out of range");
      }
      if (i > 0 && start[i] < start[i - 1]) throw Failure(WL_UNSUPPORTED, "not sorted");
      if (end[i] == start[i]) continue;
      next[static_cast<std::size_t>(i)] = first[level[i]];
      first[level[i]] = static_cast<int32_t>(i);
    }
  }
};

// The tiles of one level: from an interval's start on, earlier ones cover all up to their latest end.
struct Tile {
  int32_t row;
  int64_t begin;
  int64_t end;
};

// Moves to the next tile of a level; false behind the last one.
bool advance(Tile &tile, int32_t row, const std::vector<int32_t> &next, const int64_t *start,
             const int64_t *end) {
  const int64_t reach = tile.end;
  for (; row != kNoRow; row = next[static_cast<std::size_t>(row)]) {
    if (end[row] <= reach) continue;
    tile = {row, std::max(start[row], reach), end[row]};
    return true;
  }
  return false;
}

// Calls found(start, end, row) for the pieces in order of time.
template <typename Found>
void tile_levels(const int64_t *start, const int64_t *end, const int8_t *level, int64_t n,
                 const Found &found) {
  const Chains chains(start, end, level, n);
  std::vector<Tile> tiles;  // the current or next one of each level that has any, lowest first
  int64_t at = std::numeric_limits<int64_t>::max();
  for (const int32_t first : chains.first) {
    Tile tile{kNoRow, 0, std::numeric_limits<int64_t>::min()};
    if (!advance(tile, first, chains.next, start, end)) continue;
    tiles.push_back(tile);
    at = std::min(at, tile.begin);
  }
  while (!tiles.empty()) {
    int64_t until = std::numeric_limits<int64_t>::max();
    int32_t owner = kNoRow;
    for (std::size_t place = 0; place < tiles.size();) {
      Tile &tile = tiles[place];
      if (tile.end <= at && !advance(tile, chains.next[static_cast<std::size_t>(tile.row)],
                                     chains.next, start, end)) {
        tiles.erase(tiles.begin() + static_cast<std::ptrdiff_t>(place));
        continue;
      }
      if (tile.end <= at) continue;
      if (tile.begin <= at) {
        until = std::min(until, tile.end);
        owner = tile.row;
        break;
      }
      until = std::min(until, tile.begin);
      ++place;
    }
    if (owner != kNoRow) found(at, until, owner);
    at = until;
  }
}

}  // namespace
}  // namespace warpline

using namespace warpline;

extern "C" int64_t wl_tile_i64(const int64_t *start, const int64_t *end, const int8_t *level,
                               int64_t n, int64_t *piece_start, int64_t *piece_end,
                               int64_t *owner) {
  int64_t count = 0;
  const int32_t status = guarded(nullptr, 0, [&] {
    require(n >= 0 && (n == 0 || (start && end && level)));
    if (n > std::numeric_limits<int32_t>::max()) throw Failure(WL_TOO_MANY, "too many rows");
    if (piece_start == nullptr) {
      tile_levels(start, end, level, n, [&](int64_t, int64_t, int32_t) { ++count; });
      return;
    }
    require(piece_end && owner);
    tile_levels(start, end, level, n, [&](int64_t from, int64_t to, int32_t row) {
      piece_start[count] = from;
      piece_end[count] = to;
      owner[count++] = row;
    });
  });
  return status == WL_OK ? count : -status;
}

extern "C" int32_t wl_sum_cuts_i64(const wl_spans *spans, const int64_t *start, const int64_t *end,
                                   const int32_t *code, int64_t n, int64_t slots, int64_t codes,
                                   int64_t *sums) {
  return guarded(nullptr, 0, [&] {
    require(spans && spans->count >= 0 && n >= 0 && slots >= 0 && codes >= 0);
    require((n == 0 || (start && end)) && (slots == 0 || codes == 0 || sums));
    require(spans->count == 0 || (spans->start && spans->end && spans->first && spans->last));
    std::fill_n(sums, slots * codes, 0);
    for (int64_t span = 0; span < spans->count; ++span) {
      const int64_t slot = spans->slot == nullptr ? 0 : spans->slot[span];
      const int64_t first = spans->first[span], last = spans->last[span];
      if (first >= last) continue;
      if (slot < 0 || slot >= slots || first < 0 || last > n) {
        throw Failure(WL_BAD_ARGUMENT, "a slot or a row out of range");
      }
      const int64_t low = spans->start[span], high = spans->end[span];
      int64_t *own = sums + slot * codes;
      for (int64_t i = first; i < last; ++i) {
        const int64_t place = code == nullptr ? 0 : code[i];
        if (place >= codes) throw Failure(WL_BAD_ARGUMENT, "a code out of range");
        const int64_t from = std::max(start[i], low), to = std::min(end[i], high);
        if (place >= 0 && to > from) {  // unsigned: the whole of 64 bits can be covered
          own[place] = static_cast<int64_t>(static_cast<uint64_t>(own[place]) +
                                            static_cast<uint64_t>(to) -
                                            static_cast<uint64_t>(from));
        }
      }
    }
  });
}
