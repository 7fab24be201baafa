// The columns of a sealed session, by name, in the types of the schema.
#pragma once

#include <cstdint>
#include <string_view>

#include "raw/tables.h"

namespace warpline {

// Returns the rows of a table, or -1 if there is none of that name.
int64_t raw_rows(const RawTables &tables, std::string_view table);

// Part of a column to copy out.
struct RawPart {
  int64_t first;
  int64_t count;
  int64_t origin_ns;
  void *values;    // or nullptr
  uint8_t *valid;  // or nullptr
};

// Copies part of the column "TABLE/COLUMN"; returns how many of its rows have no value, or -1 if
// there is none of that name or not as many rows.
int64_t copy_raw_column(const RawTables &tables, std::string_view column, const RawPart &part);

}  // namespace warpline
