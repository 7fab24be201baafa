// Rows of cells as text, and the texts of ids along the parents of a row.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "boundary.h"
#include "parallel.h"

namespace {

constexpr int64_t kMaxDigits = 20;  // of an int64, with its sign
constexpr std::size_t kMinRowsPerThread = 8 * 1024;

// The most bytes that the cells of rows [begin, end) can take: of digits so many each, so that only
// texts are measured.
int64_t bound_of(const wl_cells &cells, std::size_t begin, std::size_t end) {
  int64_t bound = 0;
  switch (cells.kind) {
    case WL_CELLS_TEXTS: {
      const auto *codes = static_cast<const int32_t *>(cells.values);
      for (std::size_t row = begin; row < end; ++row) {
        const int32_t code = codes[row];
        if (code >= 0) bound += cells.offsets[code + 1] - cells.offsets[code];
      }
      return bound;
    }
    case WL_CELLS_LINES: return cells.offsets[end] - cells.offsets[begin];
    default: return kMaxDigits * static_cast<int64_t>(end - begin);
  }
}

char *write_digits(char *at, int64_t value) { return std::to_chars(at, at + kMaxDigits, value).ptr; }

// How many bytes `write_digits` writes.
int64_t count_digits(int64_t value) {
  auto rest = static_cast<uint64_t>(value);
  if (value < 0) rest = 0 - rest;
  int64_t digits = value < 0 ? 2 : 1;
  for (; rest >= 10'000; rest /= 10'000) digits += 4;
  return digits + (rest >= 10) + (rest >= 100) + (rest >= 1000);
}

char *write_text(char *at, const wl_cells &cells, int64_t text) {
  const int64_t begin = cells.offsets[text];
  const auto length = static_cast<std::size_t>(cells.offsets[text + 1] - begin);
  std::memcpy(at, cells.bytes + begin, length);
  return at + length;
}

char *write_cell(char *at, const wl_cells &cells, int64_t row) {
  if (cells.valid != nullptr && cells.valid[row] == 0) return at;
  switch (cells.kind) {
    case WL_CELLS_INT64: return write_digits(at, static_cast<const int64_t *>(cells.values)[row]);
    case WL_CELLS_INT32: return write_digits(at, static_cast<const int32_t *>(cells.values)[row]);
    case WL_CELLS_TEXTS: {
      const int32_t code = static_cast<const int32_t *>(cells.values)[row];
      return code < 0 ? at : write_text(at, cells, code);
    }
    default: return write_text(at, cells, row);
  }
}

void check_cells(const wl_cells &cells, int64_t count) {
  const bool is_text = cells.kind == WL_CELLS_TEXTS || cells.kind == WL_CELLS_LINES;
  warpline::require(cells.kind >= WL_CELLS_INT64 && cells.kind <= WL_CELLS_LINES);
  warpline::require(!is_text || (cells.bytes && cells.offsets));
  warpline::require(cells.kind == WL_CELLS_LINES || cells.values);
  if (cells.kind != WL_CELLS_TEXTS) return;
  const auto *codes = static_cast<const int32_t *>(cells.values);
  for (int64_t row = 0; row < count; ++row) warpline::require(codes[row] < cells.texts);
}

// Writes rows [begin, end) and returns where they end.
char *write_rows(const wl_cells *columns, std::size_t n_columns, std::size_t begin,
                 std::size_t end, char separator, char *at) {
  for (std::size_t row = begin; row < end; ++row) {
    for (std::size_t column = 0; column < n_columns; ++column) {
      if (column != 0) *at++ = separator;
      at = write_cell(at, columns[column], static_cast<int64_t>(row));
    }
    *at++ = '\n';
  }
  return at;
}

// The most bytes that rows [begin, end) can take.
std::size_t bound_rows(const wl_cells *columns, std::size_t n_columns, std::size_t begin,
                       std::size_t end) {
  auto bound = static_cast<int64_t>(n_columns * (end - begin));  // separators
  for (std::size_t column = 0; column < n_columns; ++column) {
    bound += bound_of(columns[column], begin, end);
  }
  return static_cast<std::size_t>(bound);
}

// The texts ":1:2:3": the ids from the outermost interval to that of a row.
struct IdPaths {
  const int64_t *ids;
  const int64_t *parent;
  const uint8_t *has_parent;

  int64_t length_of(int64_t row) const {
    int64_t length = 0;
    for (;; row = parent[row]) {
      length += 1 + count_digits(ids[row]);
      if (has_parent[row] == 0) return length;
    }
  }

  // Writes backwards, because the outermost comes first.
  void write(int64_t row, char *end) const {
    char digits[kMaxDigits];
    for (;; row = parent[row]) {
      const auto length = static_cast<std::size_t>(write_digits(digits, ids[row]) - digits);
      end -= length;
      std::memcpy(end, digits, length);
      *--end = ':';
      if (has_parent[row] == 0) return;
    }
  }
};

}  // namespace

extern "C" {

int64_t wl_format_rows(const wl_cells *columns, int32_t n_columns, int64_t count,
                       uint8_t separator, uint8_t *text, int64_t room) {
  int64_t written = 0;
  const int32_t status = warpline::guarded(nullptr, 0, [&] {
    warpline::require(columns != nullptr && n_columns > 0 && count >= 0 && room >= 0);
    const auto width = static_cast<std::size_t>(n_columns);
    for (std::size_t i = 0; i < width; ++i) check_cells(columns[i], count);
    const auto rows = static_cast<std::size_t>(count);
    const std::size_t slices = warpline::slice_count(rows, kMinRowsPerThread, 0);
    // Each slice has room for its bound; what it leaves unused is closed up afterwards.
    std::vector<std::size_t> starts(slices + 1);
    std::vector<std::size_t> sizes(slices);
    warpline::for_each_slice(rows, slices, [&](std::size_t i, std::size_t begin, std::size_t end) {
      sizes[i] = bound_rows(columns, width, begin, end);
    });
    for (std::size_t i = 0; i < slices; ++i) starts[i + 1] = starts[i] + sizes[i];
    written = static_cast<int64_t>(starts[slices]);
    if (text == nullptr || written > room) return;
    auto *const out = reinterpret_cast<char *>(text);
    warpline::for_each_slice(rows, slices, [&](std::size_t i, std::size_t begin, std::size_t end) {
      char *const at = out + starts[i];
      const char *const last =
          write_rows(columns, width, begin, end, static_cast<char>(separator), at);
      sizes[i] = static_cast<std::size_t>(last - at);
    });
    std::size_t filled = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      if (filled != starts[i]) std::memmove(out + filled, out + starts[i], sizes[i]);
      filled += sizes[i];
    }
    written = static_cast<int64_t>(filled);
  });
  return status == WL_OK ? written : -status;
}

int64_t wl_id_paths(const int64_t *ids, const int64_t *parent, const uint8_t *has_parent,
                    const int64_t *rows, int64_t n, int64_t *offsets, uint8_t *text) {
  if (n < 0 || offsets == nullptr) return -WL_BAD_ARGUMENT;
  if (n > 0 && (!ids || !parent || !has_parent || !rows)) return -WL_BAD_ARGUMENT;
  const IdPaths paths{ids, parent, has_parent};
  const auto count = static_cast<std::size_t>(n);
  const std::size_t slices = warpline::slice_count(count, kMinRowsPerThread, 0);
  if (text == nullptr) {
    offsets[0] = 0;
    warpline::for_each_slice(count, slices, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) offsets[i + 1] = paths.length_of(rows[i]);
    });
    for (std::size_t i = 0; i < count; ++i) offsets[i + 1] += offsets[i];
    return offsets[n];
  }
  auto *const out = reinterpret_cast<char *>(text);
  warpline::for_each_slice(count, slices, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) paths.write(rows[i], out + offsets[i + 1]);
  });
  return offsets[n];
}

}  // extern "C"
