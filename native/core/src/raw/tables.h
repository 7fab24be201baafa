// What a raw session holds once its logs are decoded: rows in the order of the logs, times as the
// clock gave them. decode.cpp fills it, seal.cpp completes and sorts it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "growing.h"
#include "raw/counters.h"
#include "raw/cuda.h"
#include "raw/rows.h"
#include "raw/texts.h"

namespace warpline {

inline constexpr int64_t kUnknownTime = INT64_MIN;

struct RawProcess {
  uint32_t pid = 0;
  uint64_t incarnation = 0;
  uint32_t forked_from_pid = 0;
  uint64_t forked_from_incarnation = 0;
  int32_t host = -1;
  int32_t executable = -1;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  int64_t ended_ns = kUnknownTime;  // when it had ended, or was last known to live
  bool is_closed = true;  // all its logs were closed in order
  bool is_alive = false;  // it still ran when the session was finished
  int64_t truncated = 0;  // ranges that were open at its end
};

struct RawThread {
  int32_t process = 0;
  uint32_t tid = 0;
  int32_t name = -1;  // the kernel's, or what the program calls it
  int64_t last_ns = 0;  // of its records
};

// A domain of a process and a category in it: rows share one.
struct RawPlace {
  int32_t process = 0;
  uint32_t domain = 0;
  uint32_t category = 0;
  int32_t domain_name = -1;    // text, -1 for the default domain
  int32_t category_name = -1;  // text, -1 without a category; known after all logs
};

// What a thread's ranges or marks have in common, one after the other of them: they share one.
struct RawLabel {
  uint32_t thread = 0;
  int32_t place = 0;
  int32_t name = -1;
  uint32_t color = 0;
  bool has_color = false;
  bool is_start_end = false;

  bool operator==(const RawLabel &) const = default;
};

class RawLabels {
 public:
  // Returns the number of a label. Throws Failure (WL_TOO_MANY) beyond 2^32 - 2 labels.
  uint32_t number_of(const RawLabel &label);

  const RawLabel &operator[](uint32_t number) const { return labels_[number]; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  Growing<RawLabel> labels_;
  std::vector<uint32_t> recent_ = std::vector<uint32_t>(1024, kNone);  // by a hash of the label
};

// With the number of its label, a range takes 20 bytes: a recording may have hundreds of millions.
class RawRange {
 public:
  enum Flag : uint8_t {
    kOpen = 1,       // no end was met: end_ns() is the last event of its log
    kTruncated = 2,  // the end is not its own
    kEndsElsewhere = 4,  // RawTables::end_threads has the thread
  };

  explicit RawRange(int64_t start_ns)
      : start_(static_cast<uint64_t>(start_ns) << kBits), end_(start_ | kOpen) {}

  int64_t start_ns() const { return static_cast<int64_t>(start_ >> kBits); }
  int64_t end_ns() const { return static_cast<int64_t>(end_ >> kBits); }
  bool is(Flag flag) const { return (((end_ & kFlags) | (start_ & kFlags) << 2) & flag) != 0; }

  // Ends it; what ends before its start ends there.
  void end_at(int64_t end_ns) {
    const int64_t end = std::clamp(end_ns, start_ns(), kLastNs);
    end_ = static_cast<uint64_t>(end) << kBits | (end_ & kFlags);
  }
  void close() { end_ &= ~uint64_t{kOpen}; }
  void truncate() { end_ |= kTruncated; }
  void end_elsewhere() { start_ |= 1; }

 private:
  static constexpr unsigned kBits = 2;
  static constexpr uint64_t kFlags = 3;
  static constexpr int64_t kLastNs = (int64_t{1} << 62) - 1;

  uint64_t start_;  // 62 bits, above a flag
  uint64_t end_;    // 62 bits, above two flags
};

struct RawMark {
  int64_t time_ns = 0;
  uint32_t label = 0;
};

// The two halves of a range that may end in another thread, joined by process and id.
struct RawStart {
  uint64_t id = 0;
  uint32_t process = 0;
  uint32_t range = 0;
};
struct RawStop {
  uint64_t id = 0;
  uint32_t process = 0;
  uint32_t thread = 0;
  int64_t time_ns = 0;
};

// Whose a value is.
enum class Owner : uint8_t { kRange, kMark, kStop };
enum class ValueKind : uint8_t { kInt, kReal, kText };

struct RawValue {
  uint32_t owner = 0;
  Owner owner_kind = Owner::kRange;
  ValueKind kind = ValueKind::kInt;
  int32_t key = 0;
  int64_t bits = 0;  // the integer, the real number's bits, or the text's number
};

// A payload whose schema may stand in another log: it is decoded after all of them.
struct RawPayload {
  int64_t offset = 0;  // of its record in its log
  uint32_t owner = 0;
  uint32_t log = 0;
  uint32_t domain = 0;
  Owner owner_kind = Owner::kRange;
};

struct RawVoid {
  uint32_t range = 0;
  int64_t time_ns = 0;
};

// A range that was open when its process ended or recording stopped.
struct RawOpen {
  uint32_t range = 0;
};

struct RawNote {
  int64_t time_ns = 0;
  int32_t process = 0;
  uint32_t kind = 0;
  int32_t text = 0;
};

struct RawLogFacts {
  std::string path;
  uint64_t incarnation = 0;
  int32_t process = 0;
  bool is_damaged = false;
  int64_t unread_bytes = 0;  // after the first record that could not be understood
  int64_t unread_events = 0;
  int64_t dropped_events = 0;
  int64_t cut_texts = 0;
  std::vector<int32_t> slots;  // texts by slot, at the end of a log that has payloads
};

struct RawTables {
  RawTexts texts;
  std::vector<RawProcess> processes;
  std::vector<RawThread> threads;
  std::vector<RawPlace> places;
  RawLabels labels;
  Growing<RawRange> ranges;
  Growing<uint32_t> range_labels;
  std::unordered_map<uint32_t, int32_t> end_threads;  // of ranges that end in another thread
  Growing<RawMark> marks;
  std::vector<RawStart> starts;
  std::vector<RawStop> stops;
  std::vector<RawValue> values;
  std::vector<RawPayload> payloads;
  std::vector<RawVoid> voids;
  std::vector<RawOpen> opens;  // known after all logs: by thread, what was pushed last
  std::vector<RawNote> notes;
  std::vector<RawLogFacts> logs;
  std::vector<int64_t> closings_ns;  // a capture range ended
  std::vector<int64_t> resumes_ns;   // recording was on again
  std::map<std::tuple<int32_t, uint32_t, uint32_t>, int32_t> categories;  // -> text
  std::map<std::tuple<int32_t, uint32_t, uint64_t>, std::string> schemas;
  std::map<std::tuple<int32_t, uint32_t, uint64_t>, std::string> enums;
  std::map<std::pair<uint32_t, uint64_t>, int32_t> process_of;     // pid, incarnation
  std::map<std::pair<int32_t, uint32_t>, uint32_t> thread_of;      // process, tid
  std::map<std::pair<int32_t, uint32_t>, int32_t> thread_names;    // the same -> text
  std::map<std::tuple<int32_t, uint32_t, uint32_t>, int32_t> place_of;
  // Rows in the total order of their tables, known after all logs.
  std::vector<uint32_t> range_order;
  std::vector<uint32_t> range_sources;  // by place in range_order; empty: one more than the place
  std::vector<uint32_t> mark_order;
  std::vector<uint32_t> value_order;
  std::vector<uint32_t> range_rank;  // of ranges that values belong to: their place in the order
  std::vector<uint32_t> mark_rank;
  int64_t lonely_ends = 0;    // pops and stops without a begin
  int64_t beyond_limits = 0;  // events left out because a table was full
  int64_t notes_left_out = 0;
  CudaTables cuda;
  CounterTables counters;
  RawRows rows;
  int64_t foreign_records = 0;  // of kinds that this version does not read
};

inline uint32_t &label_number(RawTables &tables, Owner kind, uint32_t row) {
  return kind == Owner::kMark ? tables.marks[row].label : tables.range_labels[row];
}

inline const RawLabel &range_label(const RawTables &tables, uint32_t row) {
  return tables.labels[tables.range_labels[row]];
}

// Generations that are looked back through, from a process to those that it was forked from.
inline constexpr int kMaxForks = 64;

// Calls look(process) for a process and those that it was forked from, until one returns true.
template <typename Look>
void for_ancestry(const RawTables &tables, int32_t process, const Look &look) {
  for (int forks = 0; forks < kMaxForks; ++forks) {
    if (look(process)) return;
    const RawProcess &facts = tables.processes[static_cast<std::size_t>(process)];
    const auto parent =
        tables.process_of.find({facts.forked_from_pid, facts.forked_from_incarnation});
    if (facts.forked_from_pid == 0 || parent == tables.process_of.end()) return;
    process = parent->second;
  }
}

}  // namespace warpline
