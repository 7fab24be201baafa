// What a raw session holds once its logs are decoded: rows in the order of the logs, times as the
// clock gave them. decode.cpp fills it, seal.cpp completes and sorts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

enum RangeFlag : uint8_t {
  kStartEnd = 1,
  kTruncated = 2,
  kHasColorFlag = 4,
  kOpen = 8,    // no end was met
  kVoided = 16,  // recording was off, or records were dropped, while it was open
};

struct RawRange {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // kOpen: the last event of its log; kVoided too, until it was voided
  uint32_t thread = 0;
  int32_t end_thread = -1;
  int32_t place = 0;
  int32_t name = -1;
  uint32_t color = 0;
  uint32_t source = 0;
  uint8_t flags = 0;
};

struct RawMark {
  int64_t time_ns = 0;
  uint32_t thread = 0;
  int32_t place = 0;
  int32_t name = -1;
  uint32_t color = 0;
  bool has_color = false;
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
  int32_t process = 0;
  bool is_damaged = false;
  int64_t unread_bytes = 0;  // after the first record that could not be understood
  int64_t unread_events = 0;
  int64_t dropped_events = 0;
  int64_t cut_texts = 0;
};

struct RawTables {
  RawTexts texts;
  std::vector<RawProcess> processes;
  std::vector<RawThread> threads;
  std::vector<RawPlace> places;
  std::vector<RawRange> ranges;
  std::vector<RawMark> marks;
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
  std::vector<uint32_t> mark_order;
  std::vector<uint32_t> value_order;
  std::vector<uint32_t> range_rank;  // of ranges that values belong to: their place in the order
  std::vector<uint32_t> mark_rank;
  int64_t lonely_ends = 0;    // pops and stops without a begin
  int64_t beyond_limits = 0;  // events left out because a table was full
  int64_t notes_left_out = 0;
  CudaTables cuda;
  RawRows rows;
  int64_t foreign_records = 0;  // of kinds that this version does not read
};

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
