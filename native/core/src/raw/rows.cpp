#include "raw/rows.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "raw/column.h"
#include "raw/tables.h"

namespace warpline {

namespace {

using raw::RowColumn;
using raw::RowRecord;

std::size_t place_of(const RowRecord &record) {
  return static_cast<std::size_t>(&record - raw::kRowRecords);
}

// Cells of a row.
std::size_t width_of(const RowRecord &record) { return 1 + record.columns.size(); }

std::size_t rows_of(const RowRecord &record, const RawRowTable &table) {
  return table.cells.size() / width_of(record);
}

const RowRecord *find_table(std::string_view table) {
  const auto *found = std::find_if(std::begin(raw::kRowRecords), std::end(raw::kRowRecords),
                                   [&](const RowRecord &record) { return record.table == table; });
  return found == std::end(raw::kRowRecords) ? nullptr : found;
}

void sort_rows(const RowRecord &record, std::vector<int64_t> &cells) {
  const std::size_t width = width_of(record);
  std::vector<uint32_t> order(cells.size() / width);
  std::iota(order.begin(), order.end(), 0U);
  const auto is_before = [&](uint32_t left, uint32_t right) {
    for (const uint8_t column : std::span(record.order, record.sorted)) {
      const int64_t a = cells[left * width + 1 + column];
      const int64_t b = cells[right * width + 1 + column];
      if (a != b) return a < b;
    }
    return false;
  };
  if (std::is_sorted(order.begin(), order.end(), is_before)) return;
  std::stable_sort(order.begin(), order.end(), is_before);
  std::vector<int64_t> sorted;
  sorted.reserve(cells.size());
  for (const uint32_t row : order) {
    const auto first = cells.begin() + static_cast<std::ptrdiff_t>(row * width);
    sorted.insert(sorted.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  cells = std::move(sorted);
}

// Copies values in the size that their column has in the schema.
template <typename Get>
int64_t copy_as(RowColumn::Is is, const RawPart &part, const Get &get) {
  switch (is) {
    case RowColumn::kNumber:
    case RowColumn::kReal:
    case RowColumn::kTime:
      return copy_values<int64_t>(part, get);
    case RowColumn::kText:
    case RowColumn::kLabel:
    case RowColumn::kConstant:
      return copy_values<int32_t>(part, get);
    case RowColumn::kFlag:
      return copy_values<uint8_t>(part, get);
  }
  return -1;
}

Maybe value_of(const RowColumn &column, int64_t cell, int64_t origin_ns) {
  if (column.is == RowColumn::kTime) return known(cell - origin_ns);
  if (column.is == RowColumn::kText) return row_or_null(cell);
  return {cell, !column.is_nullable || cell != 0};
}

}  // namespace

const RowRecord *row_record(raw::Kind kind) {
  for (const RowRecord &record : raw::kRowRecords) {
    if (record.kind == kind) return &record;
  }
  return nullptr;
}

int64_t number_in(const RowColumn &column, const uint64_t *record) {
  if (column.bits == 0) return 0;
  // To the top of the word, and down again with the sign, if it has one.
  const uint64_t top = record[column.word] << (64 - column.shift - column.bits);
  const int down = 64 - column.bits;
  return column.is_signed ? static_cast<int64_t>(top) >> down : static_cast<int64_t>(top >> down);
}

RawRows::RawRows() : tables_(std::size(raw::kRowRecords)) {}

bool RawRows::add(const RowRecord &record, int64_t owner, std::span<const int64_t> values) {
  RawRowTable &table = tables_[place_of(record)];
  if (rows_of(record, table) >= kMaxRows) return false;
  table.cells.push_back(owner);
  table.cells.insert(table.cells.end(), values.begin(), values.end());
  return true;
}

void RawRows::seal(RawTexts &texts) {
  for (const RowRecord &record : raw::kRowRecords) {
    RawRowTable &table = tables_[place_of(record)];
    if (table.cells.empty()) continue;
    for (const RowColumn &column : record.columns) {
      const bool is_constant = column.is == RowColumn::kConstant;
      table.constants.push_back(is_constant ? texts.intern(column.text) : -1);
    }
    sort_rows(record, table.cells);
  }
}

int64_t RawRows::count(std::string_view table) const {
  const RowRecord *record = find_table(table);
  if (record == nullptr) return -1;
  return static_cast<int64_t>(rows_of(*record, tables_[place_of(*record)]));
}

int64_t RawRows::copy(const RawTables &tables, std::string_view name, const RawPart &part) const {
  const std::size_t slash = name.find('/');
  const RowRecord *record = find_table(name.substr(0, slash));
  if (record == nullptr || slash == name.npos) return -1;
  name.remove_prefix(slash + 1);
  const RawRowTable &table = tables_[place_of(*record)];
  const auto cell = [&](std::size_t row, std::size_t column) {
    return table.cells[row * width_of(*record) + column];
  };
  if (name == "process_id") {
    return copy_values<int32_t>(part, [&](std::size_t row) {
      const auto owner = static_cast<std::size_t>(cell(row, 0));
      return known(record->is_of_thread ? tables.threads[owner].process : cell(row, 0));
    });
  }
  if (name == "thread_id" && record->is_of_thread) {
    return copy_values<int32_t>(part, [&](std::size_t row) { return known(cell(row, 0)); });
  }
  for (std::size_t place = 0; place < record->columns.size(); ++place) {
    const RowColumn &column = record->columns[place];
    if (column.name != name) continue;
    return copy_as(column.is, part, [&](std::size_t row) {
      if (column.is == RowColumn::kConstant) return known(table.constants[place]);
      return value_of(column, cell(row, 1 + place), part.origin_ns);
    });
  }
  return -1;
}

}  // namespace warpline
