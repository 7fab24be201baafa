#include "session/process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "session/clock.h"
#include "session/collector.h"
#include "session/standing.h"
#include "session/thread_log.h"

namespace warpline::agent {
namespace {

constexpr std::size_t kPageBytes = 4096;
static_assert(sizeof(ProcessState) <= kPageBytes);

thread_local constinit bool t_holds_lock = false;
std::atomic<std::uint64_t> g_nvtx_bound{0};
// What a fork is a fork of; read by the child, which has no other memory of it.
std::uint32_t g_parent_pid = 0;
std::uint64_t g_parent_incarnation = 0;
Session* g_last_session = nullptr;
std::uint64_t g_generations = 0;  // of this process and those that it was forked from

void forget_parent() { std::memset(static_cast<void*>(g_process), 0, kPageBytes); }

// Maps the page that forks see as zeros. Runs once, before anything else of the agent.
bool make_process_state() noexcept {
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  g_process = static_cast<ProcessState*>(page);
  // Old kernels: the C library then tells of forks, but for those that go around it.
  if (madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    pthread_atfork(nullptr, nullptr, forget_parent);
  }
  return true;
}

void forget_steps() noexcept {
  StepCount& steps = g_process->steps;
  steps.own.store(OwnSteps::kNone);
  steps.key_bytes.store(0);
  steps.windows.store(0);
  steps.source.store(StepSource::kNone);
  steps.is_changing.store(false);
  steps.begun = 0;
  steps.measured_from_ns = 0;
  steps.thread.store(0, std::memory_order_release);
}

void begin_incarnation() noexcept {
  g_process->pid = static_cast<std::uint32_t>(getpid());
  g_process->incarnation = static_cast<std::uint64_t>(now_ns());
  forget_steps();
  g_parent_pid = g_process->pid;
  g_parent_incarnation = g_process->incarnation;
  ++g_generations;
  if (g_process->first_generation == 0) g_process->first_generation = g_generations;
  g_process->generation.store(g_generations, std::memory_order_release);
}

void join_session(Session& session) noexcept {
  g_process->slot = take_slot(*session.control, g_process->pid);
  add(session.control->attached);
}

}  // namespace

ProcessState* g_process = nullptr;
std::atomic<Session*> g_session{nullptr};
std::atomic<bool> g_records_itself{false};

ProcessLock::ProcessLock() noexcept {
  t_holds_lock = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint32_t free = 0;
  while (!g_process->lock.compare_exchange_weak(free, 1, std::memory_order_acquire)) {
    free = 0;
    sched_yield();
  }
}

ProcessLock::~ProcessLock() {
  g_process->lock.store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_holds_lock = false;
}

bool holds_process_lock() noexcept { return t_holds_lock; }

namespace {

// `attached` is the session, if this has made it.
int join(const char* folder, Session*& attached) noexcept {
  if (!prepare_process()) return ENOMEM;
  if (folder == nullptr || *folder == '\0') return EINVAL;
  const ProcessLock lock;
  if (g_process->generation.load(std::memory_order_relaxed) == 0 && g_generations != 0) {
    adopt_fork();
  }
  if (const Session* current = g_session.load(std::memory_order_relaxed)) {
    return current->folder == folder ? 0 : EBUSY;
  }
  try {
    auto* session = new Session;
    session->folder = folder;
    session->control = map_control(session->folder);
    int error = session->control == nullptr ? errno : 0;
    if (error == 0) {
      error = read_config(session->folder + "/agent.conf", session->config);
      if (error != 0) report_error(*session->control, "cannot read agent.conf");
    }
    if (error != 0) {
      delete session;
      return error;
    }
    if (session->config.counters.ranges.is_on()) session->ranges_watched = kWatchFilter;
    session->earlier = g_last_session;
    g_last_session = session;
    begin_incarnation();
    join_session(*session);
    g_session.store(session, std::memory_order_release);
    attached = session;
  } catch (...) {
    return ENOMEM;
  }
  return 0;
}

}  // namespace

bool prepare_process() noexcept {
  static const bool is_ready = make_process_state();
  return is_ready;
}

int attach(const char* folder) noexcept {
  Session* attached = nullptr;
  const int error = join(folder, attached);
  if (attached != nullptr) begin_collectors(*attached);
  return error;
}

int detach() noexcept {
  if (g_process == nullptr) return ENOTCONN;
  const ProcessLock lock;
  Session* session = g_session.exchange(nullptr, std::memory_order_acq_rel);
  if (session == nullptr) return ENOTCONN;
  while (g_process->windows_open.load() != 0) {
    g_process->windows_open.fetch_sub(1);
    if (g_process->windows_open.load() == 0) close_window(*session->control, g_process->slot);
  }
  if (g_process->slot != nullptr) __atomic_store_n(&g_process->slot->pid, 0, __ATOMIC_RELEASE);
  g_process->slot = nullptr;
  return 0;
}

bool ensure_attached() noexcept {
  if (g_session.load(std::memory_order_acquire) != nullptr) return true;
  if (!is_standing()) {
    const char* folder = std::getenv("WARPLINE_SESSION");
    if (folder == nullptr) return false;
    if (!is_standing_folder(folder)) return attach(folder) == 0;
    if (stand_by(folder) != 0) return false;
  }
  follow_announcement();
  return true;
}

void adopt_fork() noexcept {
  const std::uint32_t parent_pid = g_parent_pid;
  const std::uint64_t parent_incarnation = g_parent_incarnation;
  begin_incarnation();
  g_process->forked_from_pid = parent_pid;
  g_process->forked_from_incarnation = parent_incarnation;
  if (Session* session = g_session.load(std::memory_order_acquire)) join_session(*session);
}

void adopt_if_fork() noexcept {
  const ProcessLock lock;
  if (g_process->generation.load(std::memory_order_relaxed) == 0) adopt_fork();
}

void note_nvtx_bound(const char* library_file) noexcept {
  g_nvtx_bound.fetch_add(1, std::memory_order_relaxed);
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return;
  add(session->control->nvtx_bound);
  if (LogLease log = definition_log()) {
    const char* file = library_file == nullptr ? "" : library_file;
    log->define(raw::Kind::kNote, static_cast<std::uint32_t>(raw::Note::kNvtxBound),
                static_cast<std::uint64_t>(now_ns()), file);
  }
}

void note_nvtx_released(std::uint64_t count) noexcept {
  g_nvtx_bound.fetch_sub(count, std::memory_order_relaxed);
}

void tell_nvtx_bound() noexcept {
  if (Session* session = g_session.load(std::memory_order_acquire)) {
    add(session->control->nvtx_bound, nvtx_bound());
  }
}

std::uint64_t nvtx_bound() noexcept { return g_nvtx_bound.load(std::memory_order_relaxed); }

bool domain_enabled(std::string_view name) noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session == nullptr || (session->config.nvtx && session->config.is_domain_enabled(name));
}

std::uint32_t ranges_watched() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return 0;
  const Switch now = read_switch(*session->control);
  if (now.mode() == raw::RangeMode::kNone) [[likely]] return session->ranges_watched;
  std::uint32_t watched = session->ranges_watched;
  if (now.mode() == raw::RangeMode::kSteps) {
    const bool is_over = now.state() == raw::State::kStopped;
    if (!is_over && !session->config.sample.by_calls) watched |= kWatchSteps;
  } else if (now.mode() == raw::RangeMode::kNvtx && now.state() == raw::State::kRecording) {
    watched |= kWatchWindows;
  }
  return watched;
}

bool is_capture_range(std::string_view name, std::string_view domain) noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  return session != nullptr && session->config.is_capture_range(name, domain);
}

void count_range_miss() noexcept {
  if (Session* session = g_session.load(std::memory_order_acquire)) {
    add(session->control->range_misses);
  }
}

bool window_begin() noexcept {
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return false;
  if (g_process->generation.load(std::memory_order_acquire) == 0) definition_log();
  if (g_process->windows_open.fetch_add(1) != 0) return false;
  g_process->windows_begun.fetch_add(1);
  open_window(*session->control, g_process->slot);
  return true;
}

void window_end() noexcept {
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return;
  std::uint64_t open = g_process->windows_open.load();
  while (open != 0 && !g_process->windows_open.compare_exchange_weak(open, open - 1)) {
  }
  if (open != 1) return;
  // Steps say which of them ends.
  if (read_switch(*session->control).mode() != raw::RangeMode::kSteps) {
    note_window(raw::Note::kSampleEnd, {});
  }
  if (LogLease log = recording_log()) log->put(raw::Window{.is_on = 0, .time_ns = timestamp()});
  close_window(*session->control, g_process->slot);
}

void note_window(raw::Note note, std::string_view step) noexcept {
  if (LogLease log = definition_log()) {
    log->define(raw::Kind::kNote, static_cast<std::uint32_t>(note),
                static_cast<std::uint64_t>(now_ns()), step);
  }
}

}  // namespace warpline::agent
