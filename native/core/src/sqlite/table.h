// A table of a SQLite database: its leaves, and the decoding of its columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sqlite/codes.h"
#include "sqlite/column_writer.h"
#include "sqlite/file.h"
#include "warpline_core.h"

namespace warpline {

// The columns in the order in which their values are met in a record, the rowid ones apart.
struct Plan {
  std::vector<std::size_t> rowids;
  std::vector<std::size_t> fields;
  std::vector<int32_t> positions;  // of fields
};

// Neighbouring leaves of a table, from `begin` to before `end`.
struct Leaves {
  std::size_t begin;
  std::size_t end;

  std::size_t size() const { return end - begin; }
};

class SqliteTable {
 public:
  SqliteTable(const SqliteFile &file, uint32_t root_page, int threads);

  int64_t row_count() const { return first_rows_.back(); }

  // Returns the first row of a leaf that is not before `row`, or the number of rows.
  int64_t border(int64_t row) const;

  // Returns the leaves of some rows, whose first and last are borders.
  Leaves part(int64_t first_row, int64_t last_row) const;

  // Thread-safe: nothing is kept between calls. Rows are numbered from the first of the leaves.
  void read(Leaves leaves, wl_sqlite_column *columns, int32_t column_count, int threads) const;
  void copy_bytes(Leaves leaves, const wl_sqlite_column &column, uint8_t *bytes,
                  int64_t byte_count, int threads) const;

 private:
  std::vector<Tally> read_leaves(Leaves leaves, int64_t origin, const wl_sqlite_column *columns,
                                 const Plan &plan, std::vector<DistinctValues> &distinct) const;
  void number_codes(Leaves leaves, wl_sqlite_column &column, std::size_t index,
                    std::vector<std::vector<DistinctValues>> &distinct) const;
  void complete_mask(Leaves leaves, wl_sqlite_column &column, std::size_t index,
                     const std::vector<std::vector<Tally>> &tallies) const;
  int64_t rows_of(Leaves leaves) const {
    return first_rows_[leaves.end] - first_rows_[leaves.begin];
  }
  void count_rows(const std::vector<uint32_t> &cell_counts);
  template <typename Work>
  void for_each_part(Leaves leaves, std::size_t parts, const Work &work) const;
  template <typename OnLeaf>
  void for_each_leaf(Leaves leaves, const OnLeaf &on_leaf) const;
  template <typename OnRow>
  void for_each_row(Leaves leaves, const OnRow &on_row) const;

  const SqliteFile &file_;
  std::vector<uint32_t> leaves_;     // page numbers, in rowid order
  std::vector<int64_t> first_rows_;  // of each leaf; at the end the number of rows
};

}  // namespace warpline
