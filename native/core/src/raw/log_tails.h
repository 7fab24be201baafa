// The last seconds of the logs of a session that goes on, as logs of their own.
//
// The originals are only read. Of what has become old, what later records refer to is remembered (LogPast); it
// is written before the records that are not old. Each record is read once when it becomes old, and copied only
// where a copy is asked for while it is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "raw/growing_log.h"
#include "raw/past.h"
#include "raw/record_times.h"

namespace warpline {

class LogTails {
 public:
  // Adds a log of a process, which has any number. Returns the log's.
  std::size_t add_log(const char *path, int32_t process);
  std::size_t size() const { return logs_.size(); }
  // Forgets a log, of which nothing is wanted any more.
  void close(std::size_t log) { logs_[log] = {}; }

  // Reads what has become old in all logs.
  void advance(const TrimPeriod &period);

  // Writes what is not old of a log to an empty file. Returns where it ends; 0 if the original is gone, or is no
  // log: then the file stays as it is.
  int64_t copy(std::size_t log, int file, const TrimPeriod &period);

  // How often others had removed records of a log that were not read yet, and if there were any, as they would
  // in the beginning.
  int64_t skipped(std::size_t log) const { return logs_[log].skipped; }
  // Where the original ended when it was copied last.
  int64_t used(std::size_t log) const { return logs_[log].used; }

 private:
  struct Tail {
    std::string path;
    int32_t process = 0;
    LogPast past;
    RecordTimes times;
    int64_t cut = 0;  // where the first record is that is not old; 0: nothing was read
    uint64_t gone = 0;  // events that others had removed
    int64_t skipped = 0;
    int64_t used = 0;
  };

  static void advance(Tail &tail, const GrowingLog &file, const TrimPeriod &period);
  static int64_t write(const Tail &tail, const GrowingLog &file, int target);
  void forget_ranges();

  std::vector<Tail> logs_;
};

}  // namespace warpline
