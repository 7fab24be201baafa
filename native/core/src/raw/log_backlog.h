// The newest records of a growing log, and what may be wanted of them when they have become old.
//
// A record is seen once, when it is written. Copies of the last seconds begin with what stands for all that is
// older (LogPast), so what matters for that is kept here until it is old for each of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>
#include <vector>

#include "raw/past.h"
#include "raw/record_times.h"

namespace warpline {

class LogBacklog {
 public:
  explicit LogBacklog(std::size_t tails = 0) : tails_(tails) {}

  // Begins anew at a place: what is before is not known, but for its number of events.
  void reset(int64_t place, uint64_t events);

  // Takes a record; those that claim to be later than `now_ns`, monotonic ns, say nothing of what is old.
  // False where it is not sound.
  bool take(const uint64_t *record, std::size_t words, int64_t place, int64_t now_ns);

  // Moves tails on: all that was complete before tail n's from_ns[n] is old for it, up to some milliseconds.
  void advance(const std::vector<int64_t> &from_ns);

  // How much is kept for that.
  std::size_t words() const { return words_.size() + chunks_.size() * kChunkWords; }

  // Of a tail: where what is not old begins, what stands for the rest, and how many events that does without.
  int64_t cut(std::size_t tail) const { return tails_[tail].cut; }
  LogPast::Words past(std::size_t tail) const { return tails_[tail].past.records({}); }
  uint64_t events_gone(std::size_t tail) const;

  // Calls write(words, count) for the parts of what is not old, in their order.
  template <typename Write>
  void for_new(std::size_t tail, const Write &write) const;

  // Ids of ranges that ended in what is old of this log, and began in another or were forgotten.
  void add_ends(std::size_t tail, std::unordered_set<uint64_t> &ids) const;
  void forget(std::size_t tail, const std::unordered_set<uint64_t> &ids) { tails_[tail].past.forget(ids); }

 private:
  // All records before the place are at most so late.
  struct Mark {
    int64_t place;
    int64_t latest_ns;
    uint64_t events;  // of those that matter to no past
  };
  // Records one after the other.
  struct Chunk {
    int64_t place;
    std::vector<uint64_t> words;
    int64_t end() const { return place + static_cast<int64_t>(words.size() * 8); }
  };
  struct Kept {
    int64_t place;
    std::size_t words;
  };
  struct Tail {
    LogPast past;
    int64_t cut = 0;
    uint64_t events = 0;
    uint64_t next_mark = 0;  // numbers count from the last reset
    uint64_t next_kept = 0;
    std::size_t next_word = 0;
  };

  static constexpr std::size_t kChunkWords = std::size_t{1} << 15;

  void keep(const uint64_t *record, std::size_t words, int64_t place);
  static bool matters(raw::Kind kind, const raw::KindFacts &facts);
  void mark(int64_t place);
  void advance(Tail &tail, int64_t from_ns);
  void drop();

  std::vector<Tail> tails_;
  std::deque<Chunk> chunks_;
  std::deque<Mark> marks_;
  std::deque<Kept> kept_;
  std::vector<uint64_t> words_;  // of kept_
  uint64_t first_mark_ = 0;      // number of the first in marks_
  uint64_t first_kept_ = 0;
  std::size_t first_word_ = 0;
  RecordTimes times_;
  uint64_t events_ = 0;
  uint64_t gone_ = 0;  // events before all that is known
  int64_t latest_ns_ = 0;
  Mark last_{0, 0, 0};
};

template <typename Write>
void LogBacklog::for_new(std::size_t tail, const Write &write) const {
  const int64_t cut = tails_[tail].cut;
  for (const Chunk &chunk : chunks_) {
    const auto first = static_cast<std::size_t>(std::max<int64_t>(cut - chunk.place, 0) / 8);
    if (first < chunk.words.size()) write(chunk.words.data() + first, chunk.words.size() - first);
  }
}

}  // namespace warpline
