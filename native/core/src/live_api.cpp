// The C boundary of what reads sessions that go on: nothing is thrown across it.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "boundary.h"
#include "raw/session_follower.h"
#include "warpline_core.h"

struct wl_follower {
  explicit wl_follower(std::size_t tails) : session(tails) {}
  warpline::SessionFollower session;
};

using warpline::guarded;
using warpline::require;

namespace {

std::size_t log_in(const wl_follower *follower, int64_t log) {
  require(follower != nullptr && log >= 0 && static_cast<std::size_t>(log) < follower->session.logs());
  return static_cast<std::size_t>(log);
}

}  // namespace

extern "C" {

int32_t wl_follow_open(wl_follower **follower, int32_t tails, char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(follower != nullptr && tails >= 0);
    *follower = std::make_unique<wl_follower>(static_cast<std::size_t>(tails)).release();
  });
}

void wl_follow_close(wl_follower *follower) { delete follower; }

int32_t wl_follow_add_log(wl_follower *follower, const char *path, int32_t process, char *message,
                          int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(follower != nullptr && path != nullptr && process >= 0);
    follower->session.add_log(path, process);
  });
}

int32_t wl_follow_close_log(wl_follower *follower, int64_t log, char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] { follower->session.close_log(log_in(follower, log)); });
}

int32_t wl_follow_read(wl_follower *follower, int64_t now_ns, int64_t work_from_ns, const int64_t *from_ns,
                       int64_t *facts, char *message, int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(follower != nullptr && facts != nullptr);
    warpline::SessionFollower &session = follower->session;
    require(session.tails() == 0 || from_ns != nullptr);
    const auto found = session.read(now_ns, work_from_ns, {from_ns, from_ns + session.tails()});
    const auto devices = static_cast<int64_t>(session.work().devices().size());
    const int64_t all[] = {found.missing_from_ns, found.lost, found.damaged, found.skipped, devices};
    std::copy(std::begin(all), std::end(all), facts);
  });
}

int32_t wl_follow_devices(const wl_follower *follower, int32_t *process, int64_t *number, char *message,
                          int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(follower != nullptr && process != nullptr && number != nullptr);
    for (const auto &[of, device] : follower->session.work().devices()) {
      *process++ = of;
      *number++ = device;
    }
  });
}

int32_t wl_follow_measure(const wl_follower *follower, int64_t from_ns, int64_t until_ns, const int32_t *rows,
                          int64_t row_count, int64_t *busy_ns, int64_t *operations, char *message,
                          int64_t message_bytes) {
  return guarded(message, message_bytes, [&] {
    require(follower != nullptr && rows != nullptr && row_count >= 0);
    require(row_count == 0 || (busy_ns != nullptr && operations != nullptr));
    const warpline::RecentWork &work = follower->session.work();
    const std::vector<int32_t> row_of(rows, rows + work.devices().size());
    for (const int32_t row : row_of) require(row >= 0 && row < row_count);
    const auto count = static_cast<std::size_t>(row_count);
    std::vector<int64_t> busy(count);
    std::vector<int64_t> counts(count);
    work.measure(from_ns, until_ns, row_of, busy, counts);
    std::copy(busy.begin(), busy.end(), busy_ns);
    std::copy(counts.begin(), counts.end(), operations);
  });
}

int64_t wl_follow_copy(wl_follower *follower, int32_t tail, int64_t log, int32_t file, int64_t *facts,
                       char *message, int64_t message_bytes) {
  int64_t end = 0;
  const int32_t status = guarded(message, message_bytes, [&] {
    const std::size_t number = log_in(follower, log);
    require(facts != nullptr && tail >= 0 && static_cast<std::size_t>(tail) < follower->session.tails());
    end = follower->session.copy(static_cast<std::size_t>(tail), number, file);
    const warpline::SessionFollower::LogState &state = follower->session.state(number);
    facts[0] = state.skipped;
    facts[1] = state.end;
  });
  return status == WL_OK ? end : -status;
}

}  // extern "C"
