// What is left of the older records of a log: those that later records refer to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "warpline_raw.h"

namespace warpline {

// Takes the records of a log in their order, and gives back those that stand for all of them: the thread,
// what lasts, and ranges that are open. Ranges with an id may end in other logs: who has seen these
// tells which are over.
class LogPast {
 public:
  using Words = std::vector<uint64_t>;

  // A begin or an end of a range: the text of its name, if it has one, the record, and its payloads.
  struct Event {
    Words words;
    std::vector<int64_t> places;  // of the record and its payloads in the log
  };

  // A whole record and its place in the log; false where it is not sound.
  bool add(const uint64_t *record, std::size_t words, int64_t place);

  // Events among the records so far that are not in what is given back.
  int64_t events_gone(const std::unordered_set<uint64_t> &over) const;

  // The ids of ranges that began, and of those that ended, as far as they are not both of this log.
  const std::map<uint64_t, Event> &starts() const { return starts_; }
  const std::map<uint64_t, Event> &stops() const { return stops_; }

  // The records. Of starts and stops those that are not over.
  Words records(const std::unordered_set<uint64_t> &over) const;

  // Drops starts and stops of ranges that are over: both of a range, in all logs.
  void forget(const std::unordered_set<uint64_t> &over);

  // The places of those of ranges that are in `records`.
  std::unordered_set<int64_t> event_places(const std::unordered_set<uint64_t> &over) const;

 private:
  // Kind, aux and first word; those with equal content have that, too.
  using Key = std::tuple<raw::Kind, uint32_t, uint64_t, std::string>;

  bool add_event(const uint64_t *record, std::size_t words, int64_t place);
  void last(const uint64_t *record, std::size_t words, const raw::KindFacts &facts);
  bool on_push(const uint64_t *record, std::size_t words, int64_t place);
  bool on_start(const uint64_t *record, std::size_t words, int64_t place);
  Event event_of(const uint64_t *record, std::size_t words, int64_t place) const;
  std::vector<const Event *> events(const std::unordered_set<uint64_t> &over) const;

  Words thread_;
  std::map<Key, std::size_t> places_;  // in lasting_
  std::vector<Words> lasting_;         // in the order in which they were first there
  std::unordered_map<uint32_t, Words> slots_;
  std::map<uint32_t, std::vector<Event>> open_;  // pushes by domain, innermost last
  std::map<uint64_t, Event> starts_;
  std::map<uint64_t, Event> stops_;
  Event *owner_ = nullptr;  // what a payload that comes next belongs to
  int64_t events_ = 0;
};

}  // namespace warpline
