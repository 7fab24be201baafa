// Prints a table of a SQLite file, as JSON: release/check_emulated.py compares it with what sqlite3 reads.
//
//     read_table FILE ROOT_PAGE COLUMN...      COLUMN: its position and i (integers), f or t, such as 3t
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "warpline_core.h"

namespace {

struct Column {
  std::vector<int64_t> values;  // or the bits of reals, or the offsets of texts
  std::vector<uint8_t> valid;
  std::vector<uint8_t> bytes;
};

[[noreturn]] void fail(const char* what, int32_t status, const char* message) {
  std::fprintf(stderr, "%s: %d %s\n", what, status, message);
  std::exit(1);
}

void print(const Column& column, const wl_sqlite_column& asked, std::size_t row) {
  if (asked.invalid != 0 && column.valid[row] == 0) {
    std::printf("null");
  } else if (asked.kind == WL_KIND_INT64) {
    std::printf("%lld", static_cast<long long>(column.values[row]));
  } else if (asked.kind == WL_KIND_FLOAT64) {
    std::printf("%.17g", static_cast<const double*>(asked.values)[row]);
  } else {
    std::printf("\"");  // as hexadecimal digits
    for (auto at = column.values[row]; at < column.values[row + 1]; ++at) {
      std::printf("%02x", column.bytes[static_cast<std::size_t>(at)]);
    }
    std::printf("\"");
  }
}

}  // namespace

int main(int count, char** words) {
  char message[512] = "";
  if (count < 4) fail("read_table FILE ROOT_PAGE COLUMN...", 2, "");
  wl_sqlite* database = nullptr;
  wl_sqlite_table* table = nullptr;
  int64_t rows = 0;
  int32_t status = wl_sqlite_open(words[1], &database, message, sizeof message);
  if (status != WL_OK) fail("open", status, message);
  const auto root = static_cast<uint32_t>(std::strtoul(words[2], nullptr, 10));
  status = wl_sqlite_table_open(database, root, 2, &table, &rows, message, sizeof message);
  if (status != WL_OK) fail("table", status, message);

  const auto room = static_cast<std::size_t>(rows);
  std::vector<Column> columns(static_cast<std::size_t>(count - 3));
  std::vector<wl_sqlite_column> asked(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    char* kind = nullptr;
    columns[i].values.resize(room + 1);
    columns[i].valid.resize(room);
    asked[i].values = columns[i].values.data();
    asked[i].valid = columns[i].valid.data();
    asked[i].position = static_cast<int32_t>(std::strtol(words[i + 3], &kind, 10));
    asked[i].kind = *kind == 'i' ? WL_KIND_INT64 : *kind == 'f' ? WL_KIND_FLOAT64 : WL_KIND_TEXT;
    asked[i].is_real = asked[i].kind == WL_KIND_FLOAT64;
  }
  status = wl_sqlite_table_read(table, 0, rows, asked.data(), count - 3, 2, message, sizeof message);
  if (status != WL_OK) fail("read", status, message);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (asked[i].kind != WL_KIND_TEXT) continue;
    columns[i].bytes.resize(static_cast<std::size_t>(columns[i].values[room]));
    status = wl_sqlite_table_bytes(table, 0, rows, &asked[i], columns[i].bytes.data(),
                                   columns[i].values[room], 2, message, sizeof message);
    if (status != WL_OK) fail("texts", status, message);
  }
  for (std::size_t row = 0; row < room; ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::printf(i == 0 ? "[" : ",");
      print(columns[i], asked[i], row);
    }
    std::printf("]\n");
  }
  wl_sqlite_table_close(table);
  wl_sqlite_close(database);
  return 0;
}
