// The newest GPU work of a session that goes on, from records that are seen once.
//
// `warpline top` asks once per second how busy GPUs were. Making tables of the last seconds for that each time
// would take more than all else; here is only what that number needs, and it is that of the tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "raw/correlations.h"
#include "raw/cuda.h"
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

  // What a log has defined for the records that come after.
  struct Log {
    int32_t process = 0;
    CudaNumbers calls[3];  // by API: places in names_
  };

  // Begins to take records: work that ended before `from_ns`, monotonic ns, is forgotten, never to come back.
  void begin(int64_t from_ns) { from_ns_ = std::max(from_ns_, from_ns); }

  // Takes a record of a log; false where it is not sound.
  bool take(Log &log, const uint64_t *record, std::size_t words);

  // Ends that. Returns when the first launch began whose work has no record yet, monotonic ns; 0: there is none.
  int64_t end();

  // Events that CUPTI has dropped.
  int64_t lost() const { return lost_; }

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
  template <typename Record>
  bool take_work(Process &process, int32_t number, const uint64_t *record, std::size_t words);
  bool take_call(Log &log, Process &process, const uint64_t *record, std::size_t words);
  bool take_name(Log &log, const uint64_t *record, std::size_t words);
  bool take_fact(Log &log, Process &process, const uint64_t *record, std::size_t words);
  void forget(Process &process);
  int64_t missing_from_ns(Process &process) const;

  std::vector<Process> processes_;
  std::vector<CudaCallName> names_;
  std::set<Device> devices_;
  Device last_device_{-1, 0};
  int64_t from_ns_ = 0;
  int64_t ages_at_ns_ = 0;
  int64_t lost_ = 0;
};

}  // namespace warpline
