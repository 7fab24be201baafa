// How a column of a sealed session is copied out of its rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "raw/columns.h"
#include "raw/tables.h"

namespace warpline {

// A value that may be absent.
struct Maybe {
  int64_t value;
  bool is_there;
};

inline Maybe known(int64_t value) { return {value, true}; }
inline Maybe row_or_null(int64_t row) { return {row, row >= 0}; }

struct Column {
  std::string_view name;
  int64_t (*copy)(const RawTables &tables, const RawPart &part);  // returns how many are null
};

// Copies `sizeof(Value)` bytes of each value that `get` returns for a row.
template <typename Value, typename Get>
int64_t copy_values(const RawPart &part, const Get &get) {
  int64_t nulls = 0;
  auto *stored = static_cast<char *>(part.values);
  for (int64_t i = 0; i < part.count; ++i) {
    const Maybe found = get(static_cast<std::size_t>(part.first + i));
    nulls += !found.is_there;
    if (stored != nullptr) {
      const auto value = static_cast<Value>(found.is_there ? found.value : 0);
      std::memcpy(stored, &value, sizeof value);
      stored += sizeof value;
    }
    if (part.valid != nullptr) part.valid[i] = found.is_there;
  }
  return nulls;
}

// A column by its name, the type whose size its values have, and what gives the value of a `row` of
// the tables `t`; times count from `origin`.
#define WL_COLUMN(name, type, expression)                                             \
  Column {                                                                            \
    name, [](const RawTables &t, const RawPart &part) {                               \
      return copy_values<type>(                                                       \
          part, [&t, origin = part.origin_ns]([[maybe_unused]] std::size_t row) {     \
            static_cast<void>(t);                                                     \
            static_cast<void>(origin);                                                \
            return Maybe(expression);                                                 \
          });                                                                         \
    }                                                                                 \
  }

// The columns of the CUDA tables, and how many rows those have; -1 for a table that is none.
const Column *find_cuda_column(std::string_view name);
int64_t cuda_rows(const RawTables &tables, std::string_view table);

}  // namespace warpline
