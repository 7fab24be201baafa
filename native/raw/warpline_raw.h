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
// zero has reached the end, or a record whose writer died. The magic is the last of the log's header
// to be written, before the first record: a file without both was made by a process that ended right
// then, and lacks nothing. A log grows by blocks; a record never spans two, a kPad record fills the rest
// of a block. records.toml declares the records.
#pragma once

#include <cstddef>
#include <cstdint>

#include "warpline_records.h"

namespace warpline::raw {

inline constexpr char kMagic[8] = {'W', 'L', 'R', 'A', 'W', '\r', '\n', '\x1a'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 4096;     // records begin here
inline constexpr std::size_t kFirstBlockEnd = std::size_t{64} << 10;  // of a log's file, until it grows
inline constexpr std::size_t kMaxTextBytes = 65535;   // longer texts are truncated, and counted
inline constexpr std::size_t kMaxPayloadBytes = 65536;  // longer payloads are dropped, and counted

// Kinds from here on are skipped by a reader that does not know them; an unknown one below means that
// the log is damaged.
inline constexpr Kind kFirstSkipped{64};

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
inline constexpr std::size_t kControlSteps = 32;

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
  // kSteps: when the last of steps_begun began, monotonic: the one numbered n, counted from 0, is at n modulo
  // their number.
  std::int64_t step_ns[kControlSteps];
};
inline constexpr std::size_t kControlBytes = 4096;
static_assert(sizeof(ControlPage) <= kControlBytes);

// A program under `warpline launch`, or attached to, is in no session of its own: WARPLINE_SESSION names
// a folder with the file "standing", one shared page, and the page names the session that records now.
inline constexpr std::uint32_t kStandingMagic = 0x53424c57;  // "WLBS"
inline constexpr std::size_t kStandingBytes = 8192;
inline constexpr std::size_t kStandingFolderBytes = 4080;

struct StandingPage {
  std::uint32_t magic;
  std::uint32_t version;
  // A futex. Odd: the session in folders[number / 2 % 2] records; even: none does. Each start and each stop adds
  // one, and 0xffffffff tells all to leave for good. A folder is written before the number that announces it.
  std::uint32_t number;
  // Processes that were attached to while their libraries took up CUDA, and are still waited for.
  std::uint32_t unsettled;
  std::uint32_t reserved[4];
  char folders[2][kStandingFolderBytes];  // zero-terminated
};
static_assert(sizeof(StandingPage) == kStandingBytes);
inline constexpr std::uint32_t kStandingOver = 0xffffffff;

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

}  // namespace warpline::raw
