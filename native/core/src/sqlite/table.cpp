#include "sqlite/table.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "failure.h"
#include "parallel.h"
#include "sqlite/record.h"
#include "sqlite/shapes.h"

namespace warpline {
namespace {

constexpr int kMaxTreeDepth = 20;  // sqlite3's own limit
constexpr uint8_t kIndexInterior = 0x02;
constexpr uint8_t kIndexLeaf = 0x0a;
constexpr std::size_t kRunBytes = 256 * 1024;  // read at once: stays in the second-level cache
constexpr std::size_t kMinLeavesPerThread = 256;  // a millisecond's work

// Calls on_page(index, page) for pages[begin..end), reading neighbours in the file at one go.
template <typename OnPage>
void for_each_page(const SqliteFile &file, const std::vector<uint32_t> &pages, std::size_t begin,
                   std::size_t end, const OnPage &on_page) {
  const std::size_t page_size = file.page_size();
  const std::size_t most = std::min(std::max<std::size_t>(1, kRunBytes / page_size), end - begin);
  std::vector<uint8_t> buffer(most * page_size + kPadding);
  while (begin < end) {
    std::size_t count = 1;
    while (count < most && begin + count < end && pages[begin + count] == pages[begin] + count) {
      ++count;
    }
    file.read_pages(pages[begin], static_cast<uint32_t>(count), buffer.data());
    for (std::size_t i = 0; i < count; ++i) on_page(begin + i, buffer.data() + i * page_size);
    begin += count;
  }
}

// One level of a b-tree: what its pages are, and the pages below them.
struct Level {
  std::vector<PageHeader> headers;
  std::vector<uint32_t> children;
};

void append_children(const SqliteFile &file, uint32_t page_number, const uint8_t *page,
                     const PageHeader &header, std::vector<uint32_t> &children) {
  for (uint32_t i = 0; i < header.cell_count; ++i) {
    children.push_back(load_be32(page + cell_position(file, page_number, page, header, i)));
  }
  children.push_back(load_be32(page + header.pointers_at - 4));  // the right-most
}

Level read_level(const SqliteFile &file, const std::vector<uint32_t> &pages, int threads) {
  const std::size_t slices = slice_count(pages.size(), kMinLeavesPerThread, threads);
  Level level;
  level.headers.resize(pages.size());
  std::vector<std::vector<uint32_t>> children(slices);
  for_each_slice(pages.size(), slices, [&](std::size_t slice, std::size_t begin, std::size_t end) {
    for_each_page(file, pages, begin, end, [&](std::size_t i, const uint8_t *page) {
      level.headers[i] = parse_page_header(file, pages[i], page);
      if (level.headers[i].type == kTableInterior) {
        append_children(file, pages[i], page, level.headers[i], children[slice]);
      }
    });
  });
  for (const auto &part : children) {
    level.children.insert(level.children.end(), part.begin(), part.end());
  }
  return level;
}

void check_types(const std::vector<uint32_t> &pages, const Level &level, bool is_root) {
  const uint8_t type = level.headers.front().type;
  if (is_root && (type == kIndexInterior || type == kIndexLeaf)) {
    throw Failure(WL_UNSUPPORTED, "the table has no rowid");
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (level.headers[i].type == kTableLeaf && type == kTableLeaf) continue;
    if (level.headers[i].type == kTableInterior && type == kTableInterior) continue;
    throw_corrupt(pages[i], "not the expected kind of table page");
  }
}

// Every page may be met once: what is met twice would be read for ever.
class Visited {
 public:
  explicit Visited(uint32_t page_count) : seen_(std::size_t{page_count} + 1) {}

  void enter(uint32_t page, uint32_t from) {
    if (page == 0 || page >= seen_.size()) {
      throw_corrupt(from, "refers to page " + std::to_string(page) + ", of " +
                              std::to_string(seen_.size() - 1) + " in the file");
    }
    if (seen_[page]) throw_corrupt(page, "used twice in one table");
    seen_[page] = true;
  }

 private:
  std::vector<bool> seen_;
};

bool holds_codes(const wl_sqlite_column &column) {
  return column.kind == WL_KIND_INT64_CODES || column.kind == WL_KIND_TEXT_CODES;
}

bool holds_bytes(const wl_sqlite_column &column) {
  return column.kind == WL_KIND_TEXT || column.kind == WL_KIND_BLOB;
}

Plan make_plan(const wl_sqlite_column *columns, std::size_t count) {
  Plan plan;
  for (std::size_t i = 0; i < count; ++i) {
    const wl_sqlite_column &column = columns[i];
    const bool is_known = column.kind >= WL_KIND_INT64 && column.kind <= WL_KIND_TEXT_CODES;
    if (holds_codes(column) && (!column.distinct || column.position == WL_ROWID ||
                                (column.kind == WL_KIND_TEXT_CODES && !column.distinct_bytes))) {
      throw Failure(WL_BAD_ARGUMENT, "column " + std::to_string(i) + " has no room for its values");
    }
    if (!is_known || column.position < WL_ROWID || !column.values || !column.valid) {
      throw Failure(WL_BAD_ARGUMENT, "column " + std::to_string(i) + " is not declared correctly");
    }
    (column.position == WL_ROWID ? plan.rowids : plan.fields).push_back(i);
  }
  std::stable_sort(plan.fields.begin(), plan.fields.end(), [&](std::size_t a, std::size_t b) {
    return columns[a].position < columns[b].position;
  });
  for (const std::size_t i : plan.fields) plan.positions.push_back(columns[i].position);
  return plan;
}

void write_rowid(const wl_sqlite_column &column, int64_t rowid, int64_t row, Tally &tally) {
  column.valid[row] = !holds_bytes(column);
  if (holds_bytes(column)) {
    static_cast<int64_t *>(column.values)[row + 1] = 0;
    ++tally.invalid;
    ++tally.mismatched;
  } else if (column.kind == WL_KIND_FLOAT64) {
    static_cast<double *>(column.values)[row] = static_cast<double>(rowid);
  } else {
    static_cast<int64_t *>(column.values)[row] = rowid;
  }
}

}  // namespace

SqliteTable::SqliteTable(const SqliteFile &file, uint32_t root_page, int threads) : file_(file) {
  Visited visited(file.page_count());
  visited.enter(root_page, root_page);
  leaves_ = {root_page};
  for (int depth = 0;; ++depth) {
    if (depth == kMaxTreeDepth) throw_corrupt(root_page, "the table's B-tree is too deep");
    Level level = read_level(file, leaves_, threads);
    check_types(leaves_, level, depth == 0);
    if (level.headers.front().type == kTableLeaf) {
      std::vector<uint32_t> cell_counts;
      for (const PageHeader &header : level.headers) cell_counts.push_back(header.cell_count);
      count_rows(cell_counts);
      break;
    }
    const uint32_t parent = leaves_.front();
    for (const uint32_t child : level.children) visited.enter(child, parent);
    leaves_ = std::move(level.children);
  }
  file.check_unchanged();
}

void SqliteTable::count_rows(const std::vector<uint32_t> &cell_counts) {
  first_rows_.reserve(cell_counts.size() + 1);
  first_rows_.push_back(0);
  for (const uint32_t count : cell_counts) first_rows_.push_back(first_rows_.back() + count);
}

int64_t SqliteTable::border(int64_t row) const {
  return *std::lower_bound(first_rows_.begin(), first_rows_.end() - 1, row);
}

Leaves SqliteTable::part(int64_t first_row, int64_t last_row) const {
  if (first_row > last_row) throw Failure(WL_BAD_ARGUMENT, "an end before its start");
  const auto leaf = [&](int64_t row) {
    const auto found = std::lower_bound(first_rows_.begin(), first_rows_.end(), row);
    if (found == first_rows_.end() || *found != row) throw Failure(WL_BAD_ARGUMENT, "no border");
    return static_cast<std::size_t>(found - first_rows_.begin());
  };
  return {leaf(first_row), last_row == row_count() ? leaves_.size() : leaf(last_row)};
}

// Calls on_leaf(record, leaf, page, header) for some leaves; `record` opens their cells.
template <typename OnLeaf>
void SqliteTable::for_each_leaf(Leaves leaves, const OnLeaf &on_leaf) const {
  RecordReader record(file_);
  for_each_page(file_, leaves_, leaves.begin, leaves.end, [&](std::size_t leaf, const uint8_t *page) {
    const PageHeader header = parse_page_header(file_, leaves_[leaf], page);
    if (header.type != kTableLeaf ||
        first_rows_[leaf] + header.cell_count != first_rows_[leaf + 1]) {
      throw Failure(WL_CHANGED, "another program modified the file");
    }
    on_leaf(record, leaf, page, header);
  });
}

// Calls on_row(record, row) for the rows of some leaves.
template <typename OnRow>
void SqliteTable::for_each_row(Leaves leaves, const OnRow &on_row) const {
  for_each_leaf(leaves, [&](RecordReader &record, std::size_t leaf,
                                           const uint8_t *page, const PageHeader &header) {
    for (uint32_t i = 0; i < header.cell_count; ++i) {
      record.open_cell(leaves_[leaf], page, cell_position(file_, leaves_[leaf], page, header, i));
      on_row(record, first_rows_[leaf] + i);
    }
  });
}

// Rows whose places are known are written a page and a column at a time; before another one is, so
// that texts are met in the order of rows.
std::vector<Tally> SqliteTable::read_leaves(Leaves leaves, int64_t origin,
                                            const wl_sqlite_column *columns, const Plan &plan,
                                            std::vector<DistinctValues> &distinct) const {
  const std::size_t count = plan.fields.size() + plan.rowids.size();
  const int64_t first_row = first_rows_[leaves.begin] - origin;
  std::vector<Tally> tally(count);
  for (std::size_t i = 0; i < count; ++i) {
    distinct.emplace_back(columns[i], rows_of(leaves));
  }
  std::vector<ColumnWriter> writers;
  for (const std::size_t i : plan.fields) {
    writers.emplace_back(columns[i], tally[i], distinct[i], first_row);
  }
  Shapes shapes(writers, plan.positions);
  std::vector<PlacedRow> placed;
  const auto write_placed = [&] {
    for (std::size_t i = 0; i < writers.size(); ++i) writers[i].write_placed(placed, i);
    placed.clear();
  };
  const auto write_row = [&](RecordReader &record, int64_t row) {
    for (const std::size_t i : plan.rowids) write_rowid(columns[i], record.rowid(), row, tally[i]);
    if (const ValuePlace *places = shapes.find(record)) {
      placed.push_back({record.local(), places, row});
      return;
    }
    write_placed();
    record.for_each_field(plan.positions, [&](std::size_t i, Field field) {
      writers[i].write(record, field, row);
    });
    shapes.learn(record);
  };
  for_each_leaf(leaves, [&](RecordReader &record, std::size_t leaf, const uint8_t *page,
                            const PageHeader &header) {
    for (uint32_t i = 0; i < header.cell_count; ++i) {
      record.open_cell(leaves_[leaf], page, cell_position(file_, leaves_[leaf], page, header, i));
      write_row(record, first_rows_[leaf] - origin + i);
    }
    write_placed();
  });
  return tally;
}

// Calls work(slice, leaves, first row) for parts of some leaves, several at a time.
template <typename Work>
void SqliteTable::for_each_part(Leaves leaves, std::size_t parts, const Work &work) const {
  for_each_slice(leaves.size(), parts, [&](std::size_t part, std::size_t begin, std::size_t end) {
    const Leaves own{leaves.begin + begin, leaves.begin + end};
    work(part, own, first_rows_[own.begin] - first_rows_[leaves.begin]);
  });
}

// Writes the mask where a part had a value in every row, if another had not.
void SqliteTable::complete_mask(Leaves leaves, wl_sqlite_column &column, std::size_t index,
                                const std::vector<std::vector<Tally>> &tallies) const {
  if (column.invalid == 0) return;
  for_each_part(leaves, tallies.size(), [&](std::size_t part, Leaves own, int64_t first_row) {
    if (tallies[part][index].invalid != 0) return;
    std::memset(column.valid + first_row, 1, static_cast<std::size_t>(rows_of(own)));
  });
}

void SqliteTable::read(Leaves leaves, wl_sqlite_column *columns, int32_t column_count,
                       int threads) const {
  const auto count = static_cast<std::size_t>(column_count);
  const Plan plan = make_plan(columns, count);
  const std::size_t parts = slice_count(leaves.size(), kMinLeavesPerThread, threads);
  const int64_t origin = first_rows_[leaves.begin];
  std::vector<std::vector<Tally>> tallies(parts);
  std::vector<std::vector<DistinctValues>> distinct(parts);
  for_each_part(leaves, parts, [&](std::size_t part, Leaves own, int64_t) {
    tallies[part] = read_leaves(own, origin, columns, plan, distinct[part]);
  });
  for (std::size_t i = 0; i < count; ++i) {
    wl_sqlite_column &column = columns[i];
    column.invalid = column.mismatched = column.short_rows = 0;
    for (const std::vector<Tally> &tally : tallies) {
      column.invalid += tally[i].invalid;
      column.mismatched += tally[i].mismatched;
      column.short_rows += tally[i].short_rows;
    }
    if (column.position != WL_ROWID) complete_mask(leaves, column, i, tallies);
    if (holds_codes(column)) number_codes(leaves, column, i, distinct);
    if (!holds_bytes(column)) continue;
    auto *offsets = static_cast<int64_t *>(column.values);
    offsets[0] = 0;
    std::partial_sum(offsets, offsets + rows_of(leaves) + 1, offsets);
  }
  file_.check_unchanged();
}

// Gives the values of all parts common numbers.
void SqliteTable::number_codes(Leaves leaves, wl_sqlite_column &column, std::size_t index,
                               std::vector<std::vector<DistinctValues>> &distinct) const {
  DistinctValues all(column, rows_of(leaves));
  std::vector<std::vector<int32_t>> numbers;
  for (const std::vector<DistinctValues> &of_part : distinct) {
    numbers.push_back(all.add_all(of_part[index]));
  }
  const std::vector<int32_t> final_numbers = all.finish(column);
  if (column.distinct_count < 0) return;
  auto *codes = static_cast<int32_t *>(column.values);
  for_each_part(leaves, distinct.size(), [&](std::size_t part, Leaves own, int64_t first_row) {
    std::vector<int32_t> &number = numbers[part];
    bool is_same = true;
    for (std::size_t code = 0; code < number.size(); ++code) {
      number[code] = final_numbers[static_cast<std::size_t>(number[code])];
      is_same = is_same && static_cast<std::size_t>(number[code]) == code;
    }
    if (is_same) return;  // as in a column with one value, whose codes take no memory
    for (int64_t row = first_row; row < first_row + rows_of(own); ++row) {
      if (codes[row] >= 0) codes[row] = number[static_cast<std::size_t>(codes[row])];
    }
  });
}

void SqliteTable::copy_bytes(Leaves leaves, const wl_sqlite_column &column, uint8_t *bytes,
                             int64_t byte_count, int threads) const {
  if (!holds_bytes(column) || column.position < 0 || !column.values || !column.valid) {
    throw Failure(WL_BAD_ARGUMENT, "the column is not a byte column");
  }
  const auto *offsets = static_cast<const int64_t *>(column.values);
  if (offsets[rows_of(leaves)] != byte_count) {
    throw Failure(WL_BAD_ARGUMENT, "the buffer size does not match the offsets");
  }
  const std::vector<int32_t> positions{column.position};
  const std::size_t parts = slice_count(leaves.size(), kMinLeavesPerThread, threads);
  for_each_part(leaves, parts, [&](std::size_t, Leaves own, int64_t) {
    for_each_row(own, [&](RecordReader &record, int64_t table_row) {
      const int64_t row = table_row - first_rows_[leaves.begin];
      const int64_t size = offsets[row + 1] - offsets[row];
      if (size == 0) return;
      record.for_each_field(positions, [&](std::size_t, Field field) {
        const auto wanted = static_cast<uint64_t>(size);
        if (!is_blob_or_text(field.type) || stored_size(field.type) != wanted) {
          throw Failure(WL_CHANGED, "another program modified the file");
        }
        const uint8_t *front = record.front(field.offset + wanted);
        std::memcpy(bytes + offsets[row], front + field.offset, wanted);
      });
    });
  });
  file_.check_unchanged();
}

}  // namespace warpline
