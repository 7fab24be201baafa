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

class SqliteTable {
 public:
  SqliteTable(const SqliteFile &file, uint32_t root_page, int threads);

  int64_t row_count() const { return first_rows_.back(); }

  // Thread-safe: nothing is kept between calls.
  void read(wl_sqlite_column *columns, int32_t column_count, int threads) const;
  void copy_bytes(const wl_sqlite_column &column, uint8_t *bytes, int64_t byte_count,
                  int threads) const;

 private:
  std::vector<Tally> read_leaves(const wl_sqlite_column *columns, const Plan &plan,
                                 std::size_t begin, std::size_t end,
                                 std::vector<DistinctValues> &distinct) const;
  void number_codes(wl_sqlite_column &column, std::size_t index, std::size_t slices,
                    std::vector<std::vector<DistinctValues>> &distinct) const;
  void complete_mask(wl_sqlite_column &column, std::size_t index,
                     const std::vector<std::vector<Tally>> &tallies) const;
  void count_rows(const std::vector<uint32_t> &cell_counts);
  template <typename OnLeaf>
  void for_each_leaf(std::size_t first_leaf, std::size_t last_leaf, const OnLeaf &on_leaf) const;
  template <typename OnRow>
  void for_each_row(std::size_t first_leaf, std::size_t last_leaf, const OnRow &on_row) const;

  const SqliteFile &file_;
  std::vector<uint32_t> leaves_;     // page numbers, in rowid order
  std::vector<int64_t> first_rows_;  // of each leaf; at the end the number of rows
};

}  // namespace warpline
