// This process in a session: attaching, forks, capture ranges.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "session/config.h"
#include "session/control.h"
#include "warpline_raw.h"

namespace warpline::agent {

// A session that this process is, or was, attached to. Never freed: another thread may be using
// it while this one detaches, and there are few.
struct Session {
  std::string folder;
  Config config;
  raw::ControlPage* control = nullptr;
  std::uint32_t ranges_watched = 0;  // kWatchFilter or 0, while no capture range is looked for
  Session* earlier = nullptr;  // the one attached before
};

// What NVTX ranges are watched for: bits.
inline constexpr std::uint32_t kWatchWindows = 1;  // one of them opens a capture range (-c nvtx)
inline constexpr std::uint32_t kWatchSteps = 2;    // one of them begins a step
inline constexpr std::uint32_t kWatchFilter = 4;   // launches are counted by those that are open

// Whether this process records by steps of its own, in range mode kSteps.
enum class OwnSteps : std::uint32_t { kNone = 0, kResting = 1, kRecording = 2 };

// What starts the steps of this process.
enum class StepSource : std::uint32_t { kNone = 0, kMarked = 1, kLaunches = 2 };

// The steps of this process, counted by the thread that began the first.
struct StepCount {
  static constexpr std::size_t kMostKey = 64;

  std::atomic<std::uint32_t> thread;   // that counts; 0: none has begun a step yet
  std::atomic<OwnSteps> own;
  std::atomic<std::uint32_t> windows;  // begun
  std::atomic<std::uint32_t> key_bytes;  // of the range that begins a step; 0: not chosen
  char key[kMostKey];                  // its name with # for numbers
  std::atomic<StepSource> source;
  std::atomic<bool> is_changing;       // a thread is counting a step, or ends the counting
  // Of who has set is_changing:
  std::uint64_t begun;
  std::int64_t measured_from_ns;
};

// State that a fork must not share with its parent: the kernel gives the child a zeroed page.
struct ProcessState {
  std::atomic<std::uint64_t> generation;  // 0: a fork that has not recorded yet
  std::uint64_t first_generation;         // of this process; those below are of what it was forked from
  std::atomic<std::uint32_t> lock;
  std::uint32_t pid;
  std::uint64_t incarnation;
  std::uint32_t forked_from_pid;
  std::uint64_t forked_from_incarnation;
  std::atomic<std::uint64_t> logs_made;
  std::atomic<std::uint64_t> windows_open;  // nested capture ranges of this process
  std::atomic<std::uint64_t> windows_begun;  // so far; nested ones are one
  StepCount steps;
  std::atomic<std::uint64_t> records_retired;
  std::atomic<bool> has_failed;  // and has told it
  std::atomic<bool> is_following;           // a thread joins or leaves what is announced: standing.h
  std::atomic<bool> is_followed_by_thread;  // one of the agent's own does it
  std::atomic<bool> is_binding;  // a thread binds instances of NVTX: nvtx/binding.h
  raw::ControlSlot* slot;
  void* free_logs;
  void* all_logs;
};
extern ProcessState* g_process;
extern std::atomic<Session*> g_session;
// Whether the program has attached the session itself: what is announced to it waits for the end of that.
extern std::atomic<bool> g_records_itself;

// Whether this process records now.
struct RecordingState {
  bool is_on;
  std::uint32_t epoch;  // another one whenever recording was turned on again
};

inline RecordingState recording_state(const Session& session) noexcept {
  const Switch now = read_switch(*session.control);
  if (now.mode() == raw::RangeMode::kSteps) [[unlikely]] {
    const StepCount& steps = g_process->steps;
    const OwnSteps own = steps.own.load(std::memory_order_relaxed);
    if (own != OwnSteps::kNone) {
      const bool is_on = now.state() == raw::State::kTimeWindow ||
                         (now.state() == raw::State::kRecording && own == OwnSteps::kRecording);
      return {is_on, (steps.windows.load(std::memory_order_relaxed) + 1) << 16 | now.epoch()};
    }
  }
  return {now.is_on(), now.epoch()};
}

// Holds the process's lock; never taken while recording an event. Also safe in a fork of a process
// in which another thread held it. Not recursive: a signal handler checks holds_process_lock().
class ProcessLock {
 public:
  ProcessLock() noexcept;
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;
};

// Whether this thread has the lock, or is about to.
bool holds_process_lock() noexcept;

// Makes the state above; returns whether it is there.
bool prepare_process() noexcept;

// Attaches to the session that WARPLINE_SESSION names, or stands by for the one that its page announces,
// unless this is done. Returns whether a session is attached now, or may be later: see standing.h.
bool ensure_attached() noexcept;

int attach(const char* folder) noexcept;
int detach() noexcept;

// Registers a fork as its own process in the session. Called with the lock held, when
// g_process->generation is 0.
void adopt_fork() noexcept;

// The same in a fork that has not recorded yet, without the lock; nothing elsewhere.
void adopt_if_fork() noexcept;

// A library's NVTX was bound to the agent; its file may be null.
void note_nvtx_bound(const char* library_file) noexcept;
// Of so many it is no more.
void note_nvtx_released(std::uint64_t count) noexcept;
std::uint64_t nvtx_bound() noexcept;
// Tells a session that was attached later how many there are.
void tell_nvtx_bound() noexcept;

// Whether events of a domain are recorded; the default domain has the empty name.
bool domain_enabled(std::string_view name) noexcept;

// What NVTX ranges are watched for now: kWatch bits; and whether this one opens a capture range.
std::uint32_t ranges_watched() noexcept;
bool is_capture_range(std::string_view name, std::string_view domain) noexcept;
void count_range_miss() noexcept;

// Open and close a capture range of this process. They nest: the outermost counts. Whether this is
// one is returned by the first; when all kinds are on it is to be told by note_window.
bool window_begin() noexcept;
void window_end() noexcept;

// Writes a note that this process records from here, or pauses; the text has the step, if any.
void note_window(raw::Note note, std::string_view step) noexcept;

}  // namespace warpline::agent
