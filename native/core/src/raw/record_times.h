// When records were, for code that goes through logs without making rows of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "raw/cuda.h"
#include "warpline_raw.h"

namespace warpline {

struct TrimPeriod {
  int64_t from_ns;   // what was complete before is old
  int64_t until_ns;  // a record that claims to be later says nothing of what is old
  bool is_last;      // these logs end: what is old beyond the first new record becomes padding, and what is later
};

// Times of the records of a log on the host's clock, 0 where a record has none. CUPTI's clock, where it is not
// the host's, goes by the last pair that were read together.
class RecordTimes {
 public:
  void see(const uint64_t *record, std::size_t words) {
    raw::CudaClock pair;
    if (raw::kind_of(*record) == raw::Kind::kCudaClock && pair.read(record, words)) {
      offset_ns_ = pair.host_ns - pair.cupti_ns;
    }
  }

  int64_t host_ns(uint64_t time_ns, bool is_on_gpu_clock) const {
    const auto found = static_cast<int64_t>(time_ns + (is_on_gpu_clock ? offset_ns_ : 0));
    return found < 0 || found > kFarNs ? 0 : found;
  }

  int64_t time_of(const uint64_t *record, std::size_t words, const raw::KindFacts &facts) const {
    if (facts.time_word == 0 || facts.time_word >= words) return 0;
    return host_ns(record[facts.time_word], facts.is_on_gpu_clock);
  }

  // The first word of work on a GPU is its begin.
  int64_t begin_of(const uint64_t *record, std::size_t words, const raw::KindFacts &facts) const {
    const bool is_work = facts.is_on_gpu_clock && facts.time_word > 1;
    return is_work && words > 1 ? host_ns(record[1], true) : time_of(record, words, facts);
  }

  // Whether what is old ends before a record.
  bool is_new(const uint64_t *record, std::size_t words, const TrimPeriod &period) const {
    const raw::KindFacts facts = raw::facts_of(raw::kind_of(*record));
    const int64_t time_ns = time_of(record, words, facts);
    const bool is_believed = time_ns <= period.until_ns || period.is_last;
    return facts.lasting == raw::Lasting::kNever && time_ns >= period.from_ns && is_believed;
  }

 private:
  uint64_t offset_ns_ = 0;
};

}  // namespace warpline
