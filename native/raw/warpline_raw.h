// The raw session: written by the agent while a program runs, and read by finishing.
//
// A session is a directory that only its user can read:
//
//     session.json       written by the launcher: command (redacted), host, times, options
//     agent.conf         configuration of the agent: lines of KEY=VALUE, values percent-encoded
//     control            one shared page: ControlPage
//     ends               written by the launcher: when processes ended, and how; one JSON object a
//                        line: {"pid": 12, "ended_ns": monotonic, "status": as waitpid gives it}
//     PID-INCARNATION-N.wlraw
//                        one log per writer: LogHeader, then records, until a header of zero
//
// A log is written by one thread at a time through a shared mapping, so its records survive
// if the process is killed. It is self-contained: a record refers only to texts, domains and
// schemas defined before it in the same log. Everything is little-endian and 8-byte aligned.
//
// A record is a header word and payload words. The header is stored last: a reader that meets
// zero has reached the end, or a record whose writer died. A log grows by blocks; a record never
// spans two, a PAD record fills the rest of a block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::raw {

inline constexpr char kMagic[8] = {'W', 'L', 'R', 'A', 'W', '\r', '\n', '\x1a'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 4096;     // records begin here
inline constexpr std::size_t kMaxTextBytes = 65535;   // longer texts are truncated, and counted
inline constexpr std::size_t kMaxPayloadBytes = 65536;  // longer payloads are dropped, and counted

// Header word: size_words (16 bits, the header included) << 48 | flags (8) << 40 | kind (8) << 32
// | aux (32).
enum class Kind : std::uint8_t {
  kEnd = 0,
  kPad = 1,           // fills a block; size_words counts, content does not
  kThread = 2,        // [time][tid][16 bytes: the kernel's name of it]; aux: 0. Records after it are
                      // this thread's. First in a log.
  kString = 3,        // aux: slot. [bytes][text...]. Redefines the slot from here on. Slots are
                      // sparse: below 1024 by hash, above by registered string
  kDomain = 4,        // aux: domain. [bytes][text...]
  kCategory = 5,      // aux: domain. [category][bytes][text...]
  kThreadName = 6,    // aux: tid. [bytes][text...]
  kResourceName = 7,  // aux: resource type, as NVTX numbers it. [identifier][bytes][text...]
  kPush = 8,          // aux: slot of the name. [time] and fields by flags
  kPop = 9,           // aux: domain. [time]
  kStart = 10,        // aux: slot of the name. [time][range id] and fields by flags
  kStop = 11,         // aux: 0. [time][range id]; any thread of the process
  kMark = 12,         // aux: slot of the name. [time] and fields by flags
  kPayload = 13,      // aux: place in the list of one event. [schema id][bytes][data...]:
                      // belongs to the kPush, kStart, kMark, kPop or kStop before it
  kSchema = 14,       // aux: domain. [schema id][bytes][SchemaText...], see warpline_payload.h
  kEnum = 15,         // aux: domain. [schema id][bytes][EnumText...]
  kWindow = 16,       // [time]. aux 1: recording was off and is on again, for this log: what this
                      // thread had open is unknown, and its pops may be missing. aux 0: this
                      // thread ended a capture range; recording may be off from here on
  kDropped = 17,      // aux: 0. [time][records]: this many events were dropped for lack of space just
                      // before here; as with kWindow 1, the open ranges of this thread are unknown
  kClock = 18,        // [monotonic ns][UTC ns]: read together; one per block
  kNote = 19,         // aux: Note. [time][bytes][text...]
  kThreadEnd = 20,    // aux: 0. [time]: the thread has ended, and with it what it had pushed; another
                      // thread may take the log over
  kCudaFirst = 64,    // reserved for CUDA records
};

// Flags of kPush, kStart and kMark; the fields follow the fixed ones in this order.
inline constexpr std::uint8_t kHasDomain = 1;    // [domain (low 32) | category (high 32)]
inline constexpr std::uint8_t kHasColor = 2;     // [0xAARRGGBB]
inline constexpr std::uint8_t kHasValue = 4;     // [value type, as NVTX numbers it][8 bytes]
inline constexpr std::uint8_t kHasNoName = 8;    // the program gave no message; aux is 0

// The kind of a kNote; its text has details.
enum class Note : std::uint32_t {
  kNvtxBound = 1,        // a library's NVTX was bound to the agent; text: its file, if known
  kNvtxUnknownCall = 2,  // an NVTX function that is not recorded was offered; text: which
  kPayloadUnknown = 3,   // unsupported version of an extension; text: which
  kTooLong = 4,          // a text or payload was truncated or dropped
  kFork = 5,             // this process is a fork; text: the parent's "PID-INCARNATION"
  kSampleBegin = 6,      // this process records from here; text: the step's number where steps are
                         // sampled, else nothing: a capture range begins
  kSampleEnd = 7,        // and pauses from here; text: the number of the first step not recorded
  kStepsByLaunch = 8,    // steps are detected from periodic launches; text: "PERIOD_NS LAUNCHES
                         // BY_CLOCK": duration and launches of one, and 1 if pauses are timed
};

// The first page of a log. Strings end with a zero byte.
struct LogHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t pid;
  std::uint32_t ppid;
  std::uint64_t incarnation;         // monotonic ns of the agent's start in this process image
  std::uint32_t forked_from_pid;     // 0: not a fork of a process that the agent was in
  std::uint32_t reserved0;
  std::uint64_t forked_from_incarnation;
  std::int64_t anchor_monotonic_ns;  // CLOCK_MONOTONIC and
  std::int64_t anchor_utc_ns;        // CLOCK_REALTIME, read together when the log was made
  // Live, by the writer:
  std::uint64_t records;             // events committed: kPush to kMark but for kPop
  std::uint64_t dropped_records;     // events dropped for lack of space
  std::uint64_t cut_texts;           // texts cut and payloads left out, of every kind
  std::int64_t closed_ns;            // when the process ended normally or detached; 0: it has not
  std::uint64_t used_bytes;          // where the next record will be
  char host[64];
  char executable[512];
  char reserved1[2056];              // zeros: the arguments of a process may hold secrets
};
static_assert(sizeof(LogHeader) <= kHeaderBytes);

// The control page, mapped by the launcher and by every process of a session.
inline constexpr std::uint32_t kControlMagic = 0x4c4e4c57;  // "WLNL"
enum class State : std::uint8_t {
  kWaiting = 0,    // before --delay has passed, or before start()
  kRecording = 1,  // or, with a capture range, ready for one
  kStopped = 2,    // for good
  kTimeWindow = 3, // recording, whatever the range mode is
};
// What opens a capture range. With kSteps a process that has begun a step records by its own
// ranges alone; one that has none of its own records while any process does.
enum class RangeMode : std::uint8_t { kNone = 0, kNvtx = 1, kCudaProfilerApi = 2, kSteps = 3 };

struct ControlSlot {           // one per attached process
  std::uint32_t pid;           // 0: free
  std::uint32_t windows_open;  // capture ranges that this process holds open
};

inline constexpr std::size_t kControlSlots = 256;

// Whether the records of a process's GPU work are in its logs. They stay in CUPTI until the work
// is done and they are flushed, so the program must not be stopped before that.
enum class DrainState : std::uint32_t {
  kNothing = 0,  // no device work is recorded
  kHolding = 1,
  kDrained = 2,  // all work that was recorded had ended, and is in the logs
};

struct ControlPage {
  std::uint32_t magic;
  std::uint32_t version;
  // One word, changed by compare-and-swap: State (low 8 bits) | RangeMode << 8 | epoch << 16 (16
  // bits) | capture ranges open now << 32. Recording is on while the state is kRecording and the
  // mode is kNone or a capture range is open; who turns it on again increments the epoch.
  std::uint64_t switch_word;
  std::uint64_t windows_done;   // capture ranges ended so far
  std::uint64_t windows_wanted; // the session stops after this many; 0: no limit
  std::uint64_t attached;       // processes that the agent was loaded in, forks included
  std::uint64_t nvtx_bound;     // NVTX instances bound, over all processes
  std::uint64_t cuda_bound;     // processes whose CUDA driver loaded the agent
  std::uint64_t range_misses;   // ranges opened that did not match the capture range
  std::uint64_t out_of_space;   // 1 once a log could not grow
  std::uint64_t agent_errors;   // processes in which the agent could not start or continue writing
  std::uint64_t unlogged_events; // events dropped because a log could not be created
  std::uint64_t steps_begun;    // kSteps: steps that processes have begun
  std::uint64_t step_processes; // kSteps: processes that have begun one
  std::uint64_t sample_plan;    // kSteps: SamplePlan, or 0 until a process has chosen one
  char first_error[512];
  ControlSlot slots[kControlSlots];
  std::uint64_t drain_wanted;   // 1 if the program is about to be stopped: see DrainState
  DrainState drains[kControlSlots];  // of the process in the slot with the same number
  // Monotonic ns of the launcher's last look at the processes in the slots: all of them ran then,
  // except those with a noted end. 0: no launcher.
  std::int64_t heartbeat_ns;
};
inline constexpr std::size_t kControlBytes = 4096;
static_assert(sizeof(ControlPage) <= kControlBytes);

// Which steps are recorded: `steps` of each `every`, from step `first` on. Steps are counted from 0
// in each process, so that equal numbers are recorded everywhere.
struct SamplePlan {
  std::uint32_t steps;  // 16 bits in the page's word, the lowest
  std::uint32_t first;  // 16 bits
  std::uint32_t every;

  constexpr std::uint64_t word() const {
    return std::uint64_t{every} << 32 | std::uint64_t{first} << 16 | steps;
  }
  static constexpr SamplePlan of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word & 0xffff),
            static_cast<std::uint32_t>(word >> 16 & 0xffff), static_cast<std::uint32_t>(word >> 32)};
  }
  constexpr bool records(std::uint64_t step) const {
    return step >= first && (step - first) % every < steps;
  }
  // How many steps after a step the next sample begins.
  constexpr std::uint64_t steps_until(std::uint64_t step) const {
    return step < first ? first - step : every - (step - first) % every;
  }
};

constexpr std::uint64_t header_word(Kind kind, std::uint8_t flags, std::size_t words,
                                    std::uint32_t aux) {
  return std::uint64_t{words} << 48 | std::uint64_t{flags} << 40 |
         std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | aux;
}
constexpr Kind kind_of(std::uint64_t header) {
  return static_cast<Kind>(static_cast<std::uint8_t>(header >> 32));
}
constexpr std::uint8_t flags_of(std::uint64_t header) {
  return static_cast<std::uint8_t>(header >> 40);
}
constexpr std::size_t words_of(std::uint64_t header) { return header >> 48; }
constexpr std::uint32_t aux_of(std::uint64_t header) { return static_cast<std::uint32_t>(header); }
constexpr std::size_t words_for(std::size_t bytes) { return (bytes + 7) / 8; }

}  // namespace warpline::raw
