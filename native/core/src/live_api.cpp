// The C boundary of what reads sessions that go on: nothing is thrown across it.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "boundary.h"
#include "raw/log_tails.h"
#include "raw/recent_work.h"
#include "warpline_core.h"

struct wl_recent {
  warpline::RecentWork work;
};

struct wl_tails {
  warpline::LogTails logs;
};

using warpline::guarded;
using warpline::require;

extern "C" {

int32_t wl_recent_open(wl_recent **recent, char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(recent != nullptr);
    *recent = std::make_unique<wl_recent>().release();
  });
}

void wl_recent_close(wl_recent *recent) { delete recent; }

int32_t wl_recent_add_log(wl_recent *recent, const char *path, int32_t process, char *message,
                          int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(recent != nullptr && path != nullptr && process >= 0);
    recent->work.add_log(path, process);
  });
}

int32_t wl_recent_read(wl_recent *recent, int64_t from_ns, int64_t *facts, char *message,
                       int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(recent != nullptr && facts != nullptr);
    const warpline::RecentWork::Facts found = recent->work.read(from_ns);
    const auto devices = static_cast<int64_t>(recent->work.devices().size());
    const int64_t all[] = {found.missing_from_ns, found.lost, found.damaged, found.skipped, devices};
    std::copy(std::begin(all), std::end(all), facts);
  });
}

int32_t wl_recent_devices(const wl_recent *recent, int32_t *process, int64_t *number) {
  return guarded(nullptr, 0, [&] {
    require(recent != nullptr && process != nullptr && number != nullptr);
    for (const auto &[of, device] : recent->work.devices()) {
      *process++ = of;
      *number++ = device;
    }
  });
}

int32_t wl_recent_measure(const wl_recent *recent, int64_t from_ns, int64_t until_ns, const int32_t *rows,
                          int64_t row_count, int64_t *busy_ns, int64_t *operations, char *message,
                          int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(recent != nullptr && rows != nullptr && row_count >= 0);
    require(row_count == 0 || (busy_ns != nullptr && operations != nullptr));
    const std::size_t devices = recent->work.devices().size();
    const std::vector<int32_t> row_of(rows, rows + devices);
    for (const int32_t row : row_of) require(row >= 0 && row < row_count);
    const auto count = static_cast<std::size_t>(row_count);
    std::vector<int64_t> busy(count);
    std::vector<int64_t> counts(count);
    recent->work.measure(from_ns, until_ns, row_of, busy, counts);
    std::copy(busy.begin(), busy.end(), busy_ns);
    std::copy(counts.begin(), counts.end(), operations);
  });
}

int32_t wl_tails_open(wl_tails **tails, char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(tails != nullptr);
    *tails = std::make_unique<wl_tails>().release();
  });
}

void wl_tails_close(wl_tails *tails) { delete tails; }

int32_t wl_tails_add_log(wl_tails *tails, const char *path, int32_t process, char *message,
                         int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(tails != nullptr && path != nullptr && process >= 0);
    tails->logs.add_log(path, process);
  });
}

int32_t wl_tails_close_log(wl_tails *tails, int64_t log) {
  return guarded(nullptr, 0, [&] {
    require(tails != nullptr && log >= 0 && static_cast<std::size_t>(log) < tails->logs.size());
    tails->logs.close(static_cast<std::size_t>(log));
  });
}

int32_t wl_tails_advance(wl_tails *tails, int64_t from_ns, int64_t until_ns, char *message,
                         int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(tails != nullptr);
    tails->logs.advance({from_ns, until_ns, false});
  });
}

int64_t wl_tails_copy(wl_tails *tails, int64_t log, int32_t file, int64_t from_ns, int64_t until_ns,
                      int64_t *facts, char *message, int64_t message_bytes) {
  int64_t end = 0;
  const int32_t status = guarded(message, message_bytes, [&] {
    require(tails != nullptr && facts != nullptr && log >= 0);
    require(static_cast<std::size_t>(log) < tails->logs.size());
    const auto number = static_cast<std::size_t>(log);
    end = tails->logs.copy(number, file, {from_ns, until_ns, false});
    facts[0] = tails->logs.skipped(number);
    facts[1] = tails->logs.used(number);
  });
  return status == WL_OK ? end : -status;
}

}  // extern "C"
