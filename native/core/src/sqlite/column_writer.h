// The one place where a stored value meets the kind that was asked for.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "sqlite/codes.h"
#include "sqlite/record.h"
#include "warpline_core.h"

namespace warpline {

inline constexpr double kExactReals = 9007199254740992.0;  // 2^53: whole reals up to it are exact

// What one thread met in one column.
struct Tally {
  int64_t invalid = 0;
  int64_t mismatched = 0;
  int64_t short_rows = 0;
};

enum class Fit : uint8_t { kValue, kMissing, kMismatch };

// Where a value of a column lies in the records of one shape. An integer is what is at `offset`,
// shifted right by `shift`, without the bits that `mask` lacks, or `constant`.
struct ValuePlace {
  uint32_t offset;
  uint32_t size;  // of texts and blobs
  int64_t mask;
  int64_t constant;
  uint8_t shift;
  Fit fit;
  bool is_absent;
};

// A record in a leaf page, and where its values lie.
struct PlacedRow {
  const uint8_t *record;
  const ValuePlace *places;
  int64_t row;
};

class ColumnWriter {
 public:
  // Writes rows from `first_row` on, each once and ascending.
  ColumnWriter(const wl_sqlite_column &column, Tally &tally, DistinctValues &distinct,
               int64_t first_row)
      : column_(column), tally_(tally), distinct_(distinct), first_row_(first_row) {}

  void write(RecordReader &record, Field field, int64_t row) const {
    Fit fit = Fit::kMissing;
    switch (column_.kind) {
      case WL_KIND_INT64: fit = write_int64(record, field, row); break;
      case WL_KIND_FLOAT64: fit = write_float64(record, field, row); break;
      case WL_KIND_INT64_CODES: fit = write_int64_code(record, field, row); break;
      case WL_KIND_TEXT_CODES: fit = write_text_code(record, field, row); break;
      default: fit = write_length(field, row);
    }
    note(fit, field.type == kAbsent, row);
  }

  // Says where a value lies that `write_placed` can take from there; false if it cannot.
  bool place(Field field, ValuePlace &out) const {
    out = {static_cast<uint32_t>(field.offset), 0, 0, 0, 0, unfit(field), field.type == kAbsent};
    switch (column_.kind) {
      case WL_KIND_INT64:
      case WL_KIND_INT64_CODES: return place_integer(field, out);
      case WL_KIND_FLOAT64: return place_real(field, out);
      default: place_bytes(field, out);
    }
    return true;
  }

  // Writes the values at place `index` of some rows.
  void write_placed(const std::vector<PlacedRow> &rows, std::size_t index) const {
    switch (column_.kind) {
      case WL_KIND_INT64: {
        auto *values = static_cast<int64_t *>(column_.values);
        for_each_place(rows, index, [&](const PlacedRow &row, const ValuePlace &place) {
          values[row.row] = integer(row, place);
        });
        break;
      }
      case WL_KIND_INT64_CODES: {
        if (distinct_.is_full()) return;
        auto *codes = static_cast<int32_t *>(column_.values);
        for_each_place(rows, index, [&](const PlacedRow &row, const ValuePlace &place) {
          put_code(codes[row.row], distinct_.add(integer(row, place)));
        });
        break;
      }
      case WL_KIND_FLOAT64: {
        auto *values = static_cast<double *>(column_.values);
        for_each_place(rows, index, [&](const PlacedRow &row, const ValuePlace &place) {
          values[row.row] = static_cast<double>(integer(row, place));
        });
        break;
      }
      case WL_KIND_TEXT_CODES: {
        if (distinct_.is_full()) return;
        auto *codes = static_cast<int32_t *>(column_.values);
        for_each_place(rows, index, [&](const PlacedRow &row, const ValuePlace &place) {
          const auto *text = reinterpret_cast<const char *>(row.record + place.offset);
          const bool is_text = place.fit == Fit::kValue;
          put_code(codes[row.row], is_text ? distinct_.add(std::string_view(text, place.size)) : -1);
        });
        break;
      }
      default: {
        auto *offsets = static_cast<int64_t *>(column_.values);
        for_each_place(rows, index, [&](const PlacedRow &row, const ValuePlace &place) {
          offsets[row.row + 1] = place.size;
        });
      }
    }
  }

 private:
  // Most columns lack no value, and nobody looks at the mask of these: it is written from the first
  // row without a value on, and does not take memory before.
  void note(Fit fit, bool is_absent, int64_t row) const {
    if (fit == Fit::kValue) {
      if (tally_.invalid != 0) column_.valid[row] = 1;
      return;
    }
    if (tally_.invalid++ == 0) {
      std::memset(column_.valid + first_row_, 1, static_cast<std::size_t>(row - first_row_));
    }
    column_.valid[row] = 0;
    tally_.mismatched += fit == Fit::kMismatch;
    tally_.short_rows += is_absent;
  }

  // Codes are 0 already: a column with one value, such as the only thread, takes no memory.
  static void put_code(int32_t &out, int32_t code) {
    if (code != 0) out = code;
  }

  template <typename Write>
  void for_each_place(const std::vector<PlacedRow> &rows, std::size_t index,
                      const Write &write) const {
    for (const PlacedRow &row : rows) {
      const ValuePlace &place = row.places[index];
      write(row, place);
      note(place.fit, place.is_absent, row.row);
    }
  }

  static int64_t integer(const PlacedRow &row, const ValuePlace &place) {
    const auto bits = static_cast<int64_t>(load_be64(row.record + place.offset));
    return ((bits >> place.shift) & place.mask) | place.constant;
  }

  bool place_integer(Field field, ValuePlace &out) const {
    if (is_plain_integer(field)) {
      place_bits(field, out);
      return true;
    }
    return !is_integer(field.type) && field.type != kReal;  // reals are looked at one by one
  }

  bool place_real(Field field, ValuePlace &out) const {
    if (is_integer(field.type)) place_bits(field, out);
    return is_integer(field.type) || is_null(field.type);
  }

  static void place_bits(Field field, ValuePlace &out) {
    out.fit = Fit::kValue;
    if (field.type >= kZero) {
      out.constant = static_cast<int64_t>(field.type - kZero);
    } else {
      out.mask = -1;
      out.shift = static_cast<uint8_t>(64 - 8 * kSmallSizes[field.type]);
    }
  }

  void place_bytes(Field field, ValuePlace &out) const {
    const bool takes_blobs = column_.kind == WL_KIND_BLOB;
    if (!is_text(field.type) && !(takes_blobs && is_blob_or_text(field.type))) return;
    out.fit = Fit::kValue;
    out.size = static_cast<uint32_t>(stored_size(field.type));
  }

  // sqlite3 stores whole numbers of REAL columns as integers, and gives them back as reals.
  bool is_plain_integer(Field field) const { return is_integer(field.type) && !column_.is_real; }

  bool load_real(RecordReader &record, Field field, double &value) const {
    if (is_integer(field.type)) {
      value = static_cast<double>(record.integer(field));
    } else if (field.type == kReal) {
      value = record.real(field);
    } else {
      return false;
    }
    return true;
  }

  static Fit unfit(Field field) { return is_null(field.type) ? Fit::kMissing : Fit::kMismatch; }

  Fit write_int64(RecordReader &record, Field field, int64_t row) const {
    return load_int64(record, field, static_cast<int64_t *>(column_.values)[row]);
  }

  Fit write_int64_code(RecordReader &record, Field field, int64_t row) const {
    if (distinct_.is_full()) return Fit::kValue;
    int64_t value = 0;
    const Fit fit = load_int64(record, field, value);
    put_code(static_cast<int32_t *>(column_.values)[row], distinct_.add(value));
    return fit;
  }

  Fit write_text_code(RecordReader &record, Field field, int64_t row) const {
    if (distinct_.is_full()) return Fit::kValue;
    int32_t &out = static_cast<int32_t *>(column_.values)[row];
    if (!is_text(field.type)) {
      out = -1;
      return unfit(field);
    }
    const uint64_t size = stored_size(field.type);
    const uint8_t *text = record.front(field.offset + size) + field.offset;
    put_code(out, distinct_.add(std::string_view(reinterpret_cast<const char *>(text), size)));
    return Fit::kValue;
  }

  Fit load_int64(RecordReader &record, Field field, int64_t &out) const {
    if (is_plain_integer(field)) {
      out = record.integer(field);
      return Fit::kValue;
    }
    out = 0;
    double value = 0;
    if (!load_real(record, field, value)) return unfit(field);
    if (std::isnan(value)) return Fit::kMissing;  // sqlite3 knows no other NaN
    if (std::fabs(value) > kExactReals || std::trunc(value) != value) return Fit::kMismatch;
    out = static_cast<int64_t>(value);
    return Fit::kValue;
  }

  Fit write_float64(RecordReader &record, Field field, int64_t row) const {
    double &out = static_cast<double *>(column_.values)[row];
    double value = 0;
    const bool is_number = load_real(record, field, value);
    out = is_number && !std::isnan(value) ? value : 0;
    if (!is_number) return unfit(field);
    return std::isnan(value) ? Fit::kMissing : Fit::kValue;
  }

  Fit write_length(Field field, int64_t row) const {
    int64_t &out = static_cast<int64_t *>(column_.values)[row + 1];
    out = 0;
    if (is_text(field.type) || (column_.kind == WL_KIND_BLOB && is_blob_or_text(field.type))) {
      out = static_cast<int64_t>(stored_size(field.type));
      return Fit::kValue;
    }
    return unfit(field);
  }

  const wl_sqlite_column &column_;
  Tally &tally_;
  DistinctValues &distinct_;
  int64_t first_row_;
};

}  // namespace warpline
