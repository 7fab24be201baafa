// The C boundary: nothing is thrown across it.
#include <memory>

#include "boundary.h"
#include "raw/columns.h"
#include "raw/session.h"
#include "raw/trim.h"
#include "sqlite/file.h"
#include "sqlite/table.h"
#include "warpline_core.h"

struct wl_sqlite {
  explicit wl_sqlite(const char *path) : file(path) {}
  warpline::SqliteFile file;
};

struct wl_sqlite_table {
  wl_sqlite_table(const wl_sqlite &database, uint32_t root_page, int threads)
      : table(database.file, root_page, threads) {}
  warpline::SqliteTable table;
};

struct wl_raw {
  warpline::RawSession session;
  bool is_sealed = false;
};

using warpline::guarded;
using warpline::require;

extern "C" {

int32_t wl_abi_version(void) { return WL_ABI_VERSION; }

int32_t wl_sqlite_open(const char *path, wl_sqlite **database, char *message,
                       int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(path != nullptr && database != nullptr);
    *database = std::make_unique<wl_sqlite>(path).release();
  });
}

void wl_sqlite_close(wl_sqlite *database) { delete database; }

int32_t wl_sqlite_table_open(const wl_sqlite *database, uint32_t root_page, int32_t threads,
                             wl_sqlite_table **table, int64_t *rows, char *message,
                             int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(database != nullptr && table != nullptr && rows != nullptr);
    auto opened = std::make_unique<wl_sqlite_table>(*database, root_page, threads);
    *rows = opened->table.row_count();
    *table = opened.release();
  });
}

void wl_sqlite_table_close(wl_sqlite_table *table) { delete table; }

int64_t wl_sqlite_table_border(const wl_sqlite_table *table, int64_t row) {
  return table == nullptr ? -WL_BAD_ARGUMENT : table->table.border(row);
}

int32_t wl_sqlite_table_read(const wl_sqlite_table *table, int64_t first, int64_t last,
                             wl_sqlite_column *columns, int32_t column_count, int32_t threads,
                             char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(table != nullptr && column_count >= 0 && (columns != nullptr || column_count == 0));
    table->table.read(table->table.part(first, last), columns, column_count, threads);
  });
}

int32_t wl_sqlite_table_bytes(const wl_sqlite_table *table, int64_t first, int64_t last,
                              const wl_sqlite_column *column, uint8_t *bytes, int64_t byte_count,
                              int32_t threads, char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(table != nullptr && column != nullptr && (bytes != nullptr || byte_count == 0));
    table->table.copy_bytes(table->table.part(first, last), *column, bytes, byte_count, threads);
  });
}

int32_t wl_raw_open(wl_raw **session, wl_decompress decompress, char *message,
                    int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(session != nullptr);
    *session = std::make_unique<wl_raw>().release();
    (*session)->session.tables().cuda.chains.decompress = decompress;
  });
}

void wl_raw_close(wl_raw *session) { delete session; }

int32_t wl_raw_add_log(wl_raw *session, const char *path, uint64_t incarnation, int32_t is_alive,
                       char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(session != nullptr && path != nullptr && !session->is_sealed);
    session->session.add(path, incarnation, is_alive != 0);
  });
}

int64_t wl_raw_decode(wl_raw *session, int64_t budget_bytes, char *message,
                      int64_t message_bytes) {
  int64_t done = 0;
  const int32_t status = guarded(message, message_bytes, [&] {
    require(session != nullptr && !session->is_sealed);
    done = session->session.decode(budget_bytes);
  });
  return status == WL_OK ? done : -status;
}

int32_t wl_raw_end_process(wl_raw *session, int64_t process, int64_t ended_ns, char *message,
                           int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(session != nullptr && !session->is_sealed && process >= 0);
    auto &processes = session->session.tables().processes;
    require(static_cast<std::size_t>(process) < processes.size());
    processes[static_cast<std::size_t>(process)].ended_ns = ended_ns;
  });
}

int32_t wl_raw_seal(wl_raw *session, int64_t origin_ns, int64_t end_ns, char *message,
                    int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(session != nullptr && !session->is_sealed);
    session->is_sealed = true;
    session->session.finish(origin_ns, end_ns);
  });
}

int64_t wl_raw_rows(const wl_raw *session, const char *table) {
  if (session == nullptr || table == nullptr) return -WL_BAD_ARGUMENT;
  const int64_t found = warpline::raw_rows(session->session.tables(), table);
  return found < 0 ? -WL_BAD_ARGUMENT : found;
}

int64_t wl_raw_column(const wl_raw *session, const char *column, int64_t first, int64_t count,
                      void *values, uint8_t *valid) {
  if (session == nullptr || column == nullptr) return -WL_BAD_ARGUMENT;
  const warpline::RawPart part{first, count, session->session.origin_ns(), values, valid};
  const int64_t found = warpline::copy_raw_column(session->session.tables(), column, part);
  return found < 0 ? -WL_BAD_ARGUMENT : found;
}

int64_t wl_raw_trim(const char *const *paths, int64_t count, int64_t from_ns, int64_t until_ns, int32_t is_last,
                    char *message, int64_t message_bytes) {
  int64_t freed = 0;
  const int32_t status = guarded(message, message_bytes, [&] {
    require(count >= 0 && (paths != nullptr || count == 0));
    freed = warpline::trim_logs({paths, paths + count}, {from_ns, until_ns, is_last != 0});
  });
  return status == WL_OK ? freed : -status;
}

int64_t wl_raw_intern(wl_raw *session, const char *text, int64_t bytes) {
  int64_t found = 0;
  const int32_t status = guarded(nullptr, 0, [&] {
    require(session != nullptr && text != nullptr && bytes >= 0);
    found = session->session.tables().texts.intern({text, static_cast<std::size_t>(bytes)});
  });
  return status == WL_OK ? found : -status;
}

}  // extern "C"
