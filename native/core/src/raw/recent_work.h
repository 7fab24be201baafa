// The newest GPU work of a session that goes on: each record of its logs is read once.
//
// `warpline top` asks once per second how busy GPUs were. Making tables of the last seconds for that each time
// would take more than all else; here is only what that number needs, and it is that of the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "raw/correlations.h"
#include "raw/cuda.h"
#include "raw/growing_log.h"
#include "raw/record_times.h"

namespace warpline {

// Whether correlations were seen lately.
class RecentCorrelations {
 public:
  void add(uint32_t correlation) { newer_.add(0, correlation); }
  bool contains(uint32_t correlation) const {
    return newer_.contains(0, correlation) || older_.contains(0, correlation);
  }
  // Forgets those that were seen before the last call of this.
  void age() {
    older_ = std::move(newer_);
    newer_ = {};
  }

 private:
  Correlations newer_;
  Correlations older_;
};

class RecentWork {
 public:
  // A GPU as a process numbers it.
  using Device = std::pair<int32_t, uint32_t>;

  struct Facts {
    int64_t missing_from_ns = 0;  // when the first launch began whose work has no record yet; 0: none
    int64_t lost = 0;             // events that were dropped
    int64_t damaged = 0;          // logs that cannot be read to their end
    int64_t skipped = 0;          // how often others had removed records that were not read yet
  };

  // Adds a log of a process, which has any number that is not negative.
  void add_log(const char *path, int32_t process);

  // Reads what is new. Work that ended before `from_ns`, monotonic ns, is forgotten, never to come back.
  Facts read(int64_t from_ns);

  // All GPUs that were declared or had work, ascending.
  const std::set<Device> &devices() const { return devices_; }

  // For each row, adds the time in [from, until), monotonic ns, with at least one operation, and the number of
  // operations that overlap it. `rows` has the row of each of `devices`.
  void measure(int64_t from_ns, int64_t until_ns, const std::vector<int32_t> &rows,
               std::vector<int64_t> &busy_ns, std::vector<int64_t> &operations) const;

 private:
  struct Work {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t device;
    uint32_t graph;  // the correlation of a graph that was traced as a whole, or 0
  };
  struct Launch {
    int64_t start_ns;
    uint32_t correlation;
    uint32_t collected;  // what must be collected, so that its work has a record
  };
  struct Capture {
    int64_t time_ns;
    int change;
  };
  struct Process {
    std::vector<Work> work;
    std::vector<Launch> launches;  // without work so far
    std::vector<Capture> captures;
    RecentCorrelations worked;
    RecentCorrelations graphs;  // launched
    CudaFacts facts;
    RecordTimes times;
  };
  struct Log {
    std::string path;
    int32_t process = 0;
    int64_t at = 0;
    int64_t dropped = 0;
    bool is_damaged = false;
    bool is_over = false;
    CudaNumbers calls[3];  // by API: places in names_
  };

  void read(Log &log);
  bool walk(Log &log, const GrowingLog &file);
  bool take(Log &log, const uint64_t *record, std::size_t words);
  template <typename Record>
  bool take_work(Process &process, int32_t number, const uint64_t *record, std::size_t words);
  bool take_call(Log &log, Process &process, const uint64_t *record, std::size_t words);
  bool take_name(Log &log, const uint64_t *record, std::size_t words);
  bool take_fact(Log &log, Process &process, const uint64_t *record, std::size_t words);
  void forget(Process &process);
  int64_t missing_from_ns(Process &process) const;
  Process &process_of(const Log &log) { return processes_[static_cast<std::size_t>(log.process)]; }

  std::vector<Log> logs_;
  std::vector<Process> processes_;
  std::vector<CudaCallName> names_;
  std::set<Device> devices_;
  Device last_device_{-1, 0};
  int64_t from_ns_ = 0;
  int64_t ages_at_ns_ = 0;
  int64_t skipped_ = 0;
  int64_t lost_ = 0;
};

}  // namespace warpline
