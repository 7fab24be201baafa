// Tables whose rows are records as they are: records.toml says which, and no code knows one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "warpline_records.h"

namespace warpline {

class RawTexts;
struct RawPart;
struct RawTables;

// The rows of one kind of record.
struct RawRowTable {
  std::vector<int64_t> cells;      // of each row: its thread or process, then its columns
  std::vector<int32_t> constants;  // texts, by column; once sealed
};

class RawRows {
 public:
  RawRows();

  // Adds a row; `owner` is the thread or the process, `values` has one of each column. False when the
  // table is full.
  bool add(const raw::RowRecord &record, int64_t owner, std::span<const int64_t> values);

  // Sorts the rows.
  void seal(RawTexts &texts);

  // The number of rows of a table, or -1 if it is none of these.
  int64_t count(std::string_view table) const;

  // Copies a part of a column and returns how many values are null; -1: there is no such column.
  int64_t copy(const RawTables &tables, std::string_view name, const RawPart &part) const;

 private:
  std::vector<RawRowTable> tables_;  // by place in raw::kRowRecords
};

// Returns what is declared of a kind of record if its records are rows, else null.
const raw::RowRecord *row_record(raw::Kind kind);

// Returns what a record has for a column; 0 for a constant.
int64_t number_in(const raw::RowColumn &column, const uint64_t *record);

}  // namespace warpline
