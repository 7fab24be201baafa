// The peer of benchmarks/sqlite_scan.py: columns fetched through sqlite3's own C interface.
//
// Usage: sqlite_step FILE QUERY ROUNDS; prints milliseconds, one line per round.
// sqlite3 is opened at run time, so that its headers are not needed.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kRow = 100;
constexpr int kInteger = 1;
constexpr int kReadOnlyNoMutex = 0x1 | 0x8000;

template <typename Function>
Function *find(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (address == nullptr) std::exit(2);
  return reinterpret_cast<Function *>(address);
}

struct Sqlite {
  void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
  int (*open)(const char *, void **, int, const char *) =
      find<int(const char *, void **, int, const char *)>(library, "sqlite3_open_v2");
  int (*prepare)(void *, const char *, int, void **, const char **) =
      find<int(void *, const char *, int, void **, const char **)>(library, "sqlite3_prepare_v2");
  int (*step)(void *) = find<int(void *)>(library, "sqlite3_step");
  int (*count)(void *) = find<int(void *)>(library, "sqlite3_column_count");
  int (*type)(void *, int) = find<int(void *, int)>(library, "sqlite3_column_type");
  int64_t (*integer)(void *, int) = find<int64_t(void *, int)>(library, "sqlite3_column_int64");
  int (*finalize)(void *) = find<int(void *)>(library, "sqlite3_finalize");
  int (*close)(void *) = find<int(void *)>(library, "sqlite3_close");
};

struct Column {
  std::vector<int64_t> values;
  std::vector<uint8_t> valid;
};

int fetch(const Sqlite &sqlite, const char *path, const char *query) {
  void *database = nullptr;
  void *statement = nullptr;
  if (sqlite.open(path, &database, kReadOnlyNoMutex, nullptr) != 0) return 1;
  if (sqlite.prepare(database, query, -1, &statement, nullptr) != 0) return 1;
  std::vector<Column> columns(static_cast<std::size_t>(sqlite.count(statement)));
  while (sqlite.step(statement) == kRow) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool valid = sqlite.type(statement, static_cast<int>(i)) == kInteger;
      columns[i].values.push_back(valid ? sqlite.integer(statement, static_cast<int>(i)) : 0);
      columns[i].valid.push_back(valid);
    }
  }
  sqlite.finalize(statement);
  sqlite.close(database);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const Sqlite sqlite;
  for (int round = 0; round < std::atoi(argv[3]); ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (fetch(sqlite, argv[1], argv[2]) != 0) return 1;
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    std::printf("%f\n", elapsed.count());
  }
}
