// Follows the logs of a session that goes on. Each record is read once; the session is only read.
//
// It knows how busy GPUs were (RecentWork), and makes copies of the last seconds of the logs, which are logs, too:
// what later records refer to is written before the records that are not old (LogBacklog).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "raw/growing_log.h"
#include "raw/log.h"
#include "raw/log_backlog.h"
#include "raw/recent_work.h"

namespace warpline {

class SessionFollower {
 public:
  // What is known of a log when it was read last.
  struct LogState {
    int64_t end = 0;      // where its next record will be
    int64_t skipped = 0;  // how often others had removed records that were not read, even if that was long ago
    bool is_damaged = false;  // it cannot be read to its end
    bool is_over = false;     // it was deleted
  };
  struct Facts {
    int64_t missing_from_ns = 0;  // when the first launch began whose work has no record yet; 0: none
    int64_t lost = 0;             // events that were dropped
    int64_t damaged = 0;          // logs that cannot be read to their end
    int64_t skipped = 0;          // of all logs
  };

  // There are copies of `tails` lengths of time.
  explicit SessionFollower(std::size_t tails) : tails_(tails) {}

  // Adds a log of a process, which has any number that is not negative.
  void add_log(const char *path, int32_t process);
  std::size_t logs() const { return logs_.size(); }
  std::size_t tails() const { return tails_; }
  // Forgets a log, of which nothing is wanted any more.
  void close_log(std::size_t log) { logs_[log] = {}; }

  // Reads what is new at `now_ns`, monotonic ns. Work that ended before `work_from_ns` is forgotten; what was
  // complete before from_ns[n] is old for tail n.
  Facts read(int64_t now_ns, int64_t work_from_ns, const std::vector<int64_t> &from_ns);

  const RecentWork &work() const { return work_; }
  const LogState &state(std::size_t log) const { return logs_[log].state; }

  // Writes what was read of a log and is not old for a tail to a file, empty or an older copy. Returns where the
  // copy ends; 0 if nothing was ever read: then the file stays as it is.
  int64_t copy(std::size_t tail, std::size_t log, int target) const;

 private:
  struct Log {
    std::string path;
    RecentWork::Log recent;
    LogBacklog backlog{0};
    LogState state;
    raw::LogHeader header{};  // as it was read last
    int64_t at = 0;  // where to read on; 0: nothing was read
    int64_t stuck_at = 0;  // what is there is damaged
    int64_t dropped = 0;
  };

  void read(Log &log, int64_t now_ns, const std::vector<int64_t> &from_ns);
  bool walk(Log &log, const GrowingLog &file, int64_t now_ns, const std::vector<int64_t> &from_ns);
  void forget_ranges();

  std::size_t tails_;
  std::vector<Log> logs_;
  RecentWork work_;
};

}  // namespace warpline
