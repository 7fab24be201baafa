#include "cpu_sampling/sampling.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cpu_sampling/sampled_thread.h"
#include "session/clock.h"
#include "session/collector.h"
#include "session/own_thread.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "stack/call_chain.h"
#include "stack/python_chain.h"
#include "stack/python_walk.h"
#include "stack/walk.h"

namespace warpline::agent {
namespace {

constexpr int kSignal = SIGURG;
constexpr std::int64_t kTickNs = 4'000'000;  // between looks at samples and at the number of threads
constexpr std::int64_t kIdleTickNs = 10'000'000;  // the same where none came
constexpr std::int64_t kReviewNs = 100'000'000;  // between looks at what cannot be seen from these
constexpr std::size_t kMostThreads = 4096;
constexpr std::int64_t kPatienceNs = 200'000'000;  // at the process's end
constexpr std::int64_t kUnsampledNs = 50'000'000;  // CPU time after which a thread is looked at

void on_signal(int, siginfo_t* info, void* context) noexcept {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr == nullptr) return;
  const int error = errno;
  static_cast<SampledThread*>(info->si_value.sival_ptr)->take(*info, context);
  errno = error;
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_signal;
}

// Installs the handler, unless the program has one. No other handler runs within it.
bool install_handler() noexcept {
  struct sigaction action {};
  if (sigaction(kSignal, nullptr, &action) != 0) return false;
  const bool is_free = action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN;
  if (is_ours(action)) return true;
  if (!is_free) return false;
  action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  return sigaction(kSignal, &action, nullptr) == 0;
}

bool has_handler() noexcept {
  struct sigaction action {};
  return sigaction(kSignal, nullptr, &action) == 0 && is_ours(action);
}

// Reads a small file of /proc/self/task/TID. Returns what it holds.
std::string_view read_of_thread(pid_t tid, const char* name, char* room, std::size_t most) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", static_cast<int>(tid), name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t bytes = read(file, room, most);
  close(file);
  return {room, bytes < 0 ? 0 : static_cast<std::size_t>(bytes)};
}

bool blocks_signal(pid_t tid) noexcept {
  char room[4096];
  const std::string_view status = read_of_thread(tid, "status", room, sizeof room);
  constexpr std::string_view kKey = "SigBlk:\t";
  const std::size_t at = status.find(kKey);
  if (at == status.npos) return true;  // it has ended
  std::uint64_t mask = 0;
  const char* digits = status.data() + at + kKey.size();
  std::from_chars(digits, status.data() + status.size(), mask, 16);
  return (mask >> (kSignal - 1) & 1) != 0;
}

// Which threads have a timer, or are about to get one: that is up to the thread itself, or to the watcher,
// whoever is first. Of threads whose numbers share a place one has a timer.
class Claims {
 public:
  bool take(pid_t process, pid_t tid) noexcept {
    std::atomic<std::uint64_t>& place = place_of(tid);
    std::uint64_t found = place.load(std::memory_order_relaxed);
    const bool is_free = found >> 32 != static_cast<std::uint32_t>(process);  // else, the parent's
    return is_free && place.compare_exchange_strong(found, claim_of(process, tid));
  }
  void give_back(pid_t tid) noexcept { place_of(tid).store(0); }

 private:
  static constexpr std::size_t kPlaces = 1u << 15;

  static std::uint64_t claim_of(pid_t process, pid_t tid) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(process)} << 32 | static_cast<std::uint32_t>(tid);
  }
  std::atomic<std::uint64_t>& place_of(pid_t tid) noexcept {
    return places_[static_cast<std::size_t>(tid) % kPlaces];
  }

  std::atomic<std::uint64_t> places_[kPlaces] = {};
};
constinit Claims g_claims;

// Samples the threads of this process, in a thread of its own; a fork begins anew.
class Watcher {
 public:
  void begin(std::uint32_t hz, bool has_python) noexcept {
    hz_ = hz;
    has_python_ = has_python;
    start();
  }

  // What was there is the parent's.
  void begin_again() noexcept {
    count_ = 0;
    seen_threads_ = 0;
    is_refused_ = false;
    dropped_ = told_ = 0;
    written_log_ = nullptr;
    met_.store(nullptr);
    state_.store(State::kNone);
    start();
  }

  // Starts the calling thread's timer, unless it has one: the watcher may find it late.
  void meet() noexcept {
    if (state_.load(std::memory_order_acquire) != State::kRunning || pid_ != getpid()) return;
    sigset_t blocked;
    if (pthread_sigmask(SIG_SETMASK, nullptr, &blocked) != 0 || sigismember(&blocked, kSignal)) return;
    const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
    SampledThread* thread = make_thread(tid);
    if (thread == nullptr) return;
    thread->turn(true);
    thread->next = met_.load(std::memory_order_relaxed);
    while (!met_.compare_exchange_weak(thread->next, thread, std::memory_order_release)) {
    }
  }

  // Waits until all samples are written, but not for long: the process is about to end.
  void end() noexcept {
    State running = State::kRunning;
    if (pid_ != getpid() || !state_.compare_exchange_strong(running, State::kEnding)) return;
    const std::int64_t until = now_ns() + kPatienceNs;
    while (state_.load(std::memory_order_acquire) != State::kEnded && now_ns() < until) {
      const timespec pause{0, kTickNs / 8};
      nanosleep(&pause, nullptr);
    }
  }

 private:
  enum class State { kNone, kRunning, kEnding, kEnded };

  static void* run(void* watcher) noexcept {
    pthread_setname_np(pthread_self(), "warpline-cpu");
    static_cast<Watcher*>(watcher)->watch();
    return nullptr;
  }

  void start() noexcept {
    if (!install_handler()) return;
    pid_ = getpid();
    state_.store(State::kRunning);
    // Before there is a watcher: to it, a thread that starts another one may seem to block all signals.
    meet();
    pthread_t thread;
    if (start_own_thread(thread, run, this)) {
      pthread_detach(thread);
      return;
    }
    state_.store(State::kNone);
    if (SampledThread* met = met_.exchange(nullptr)) met->turn(false);
  }

  void watch() noexcept {
    own_tid_ = static_cast<pid_t>(syscall(SYS_gettid));
    adopt_if_fork();
    std::int64_t review_ns = 0;
    while (state_.load(std::memory_order_acquire) == State::kRunning) {
      const std::int64_t now = now_ns();
      if (now >= review_ns) {
        review();
        review_ns = now + kReviewNs;
      } else if (threads_now() != seen_threads_) {
        look_for_threads();
      }
      const timespec pause{0, write_samples() != 0 ? kTickNs : kIdleTickNs};
      nanosleep(&pause, nullptr);
    }
    for (std::size_t i = 0; i < count_; ++i) threads_[i]->turn(false);
    write_samples();
    tell_dropped();
    state_.store(State::kEnded, std::memory_order_release);
  }

  // The kernel counts a folder per thread, and two for the folder itself.
  static std::uint64_t threads_now() noexcept {
    struct stat found;
    return stat("/proc/self/task", &found) == 0 ? found.st_nlink : 0;
  }

  // What changes seldom, or unseen: the handler, signals that are blocked, the interpreter.
  void review() noexcept {
    if (!is_refused_ && !has_handler()) refuse();
    if (has_python_) look_for_python();
    look_for_threads();
    for (std::size_t i = 0; i < count_; ++i) review_thread(*threads_[i]);
    tell_dropped();
  }

  // This thread has no frames, but the look at them finds an interpreter, or tells why it cannot be read.
  static void look_for_python() noexcept {
    meet_python();
    NativeStack none;
    if (LogLease log = recording_log()) write_python_chain(*log, none, PythonPlace::kAnywhere);
  }

  void refuse() noexcept {
    is_refused_ = true;
    for (std::size_t i = 0; i < count_; ++i) threads_[i]->turn(false);
    note(raw::CudaNote::kNoCpuSamples, "the program handles SIGURG");
  }

  void look_for_threads() noexcept {
    seen_threads_ = threads_now();
    DIR* folder = opendir("/proc/self/task");
    if (folder == nullptr) return;
    take_met();
    for (std::size_t i = 0; i < count_; ++i) threads_[i]->is_seen = false;
    while (const dirent* entry = readdir(folder)) {
      const auto tid = static_cast<pid_t>(std::atoi(entry->d_name));
      if (tid > 0 && tid != own_tid_) see(tid);
    }
    closedir(folder);
    for (std::size_t i = 0; i < count_;) {
      if (threads_[i]->is_seen) {
        ++i;
      } else {
        forget(i);
      }
    }
  }

  SampledThread* make_thread(pid_t tid) noexcept {
    if (!g_claims.take(pid_, tid)) return nullptr;
    SampledThread* thread = SampledThread::make(tid, kSignal, hz_, has_python_);
    if (thread == nullptr) g_claims.give_back(tid);
    return thread;
  }

  // Takes in the threads that have met.
  void take_met() noexcept {
    SampledThread* thread = met_.exchange(nullptr, std::memory_order_acquire);
    while (thread != nullptr) {
      SampledThread* const next = thread->next;
      if (is_refused_) thread->turn(false);
      if (count_ < kMostThreads) threads_[count_++] = thread;
      thread = next;
    }
  }

  void see(pid_t tid) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (threads_[i]->tid() != tid) continue;
      threads_[i]->is_seen = true;
      return;
    }
    if (is_refused_ || count_ == kMostThreads) return;
    SampledThread* thread = make_thread(tid);
    if (thread == nullptr) return;
    thread->is_seen = true;
    threads_[count_++] = thread;
    if (!blocks_signal(tid)) thread->turn(true);
  }

  // The thread is no more, and so is not in the handler.
  void forget(std::size_t i) noexcept {
    write_samples_of(*threads_[i]);
    dropped_ += threads_[i]->dropped.load(std::memory_order_relaxed);
    g_claims.give_back(threads_[i]->tid());
    threads_[i]->remove();
    threads_[i] = threads_[--count_];
  }

  // A thread that keeps its signals blocked gets none: it has CPU time, but no stacks. One that waits for
  // signals with sigwait would get ours.
  void review_thread(SampledThread& thread) noexcept {
    const std::int64_t used = thread.cpu_ns();
    const std::int64_t missing = used - thread.sampled_ns;
    if (used < 0 || missing < kUnsampledNs) return;
    const bool is_wanted = !is_refused_ && !blocks_signal(thread.tid());
    if (thread.is_on() != is_wanted) thread.turn(is_wanted);
    if (is_wanted) return;
    LogLease log = recording_log();
    if (log && write_thread(*log, thread.tid())) {
      log->put(raw::CpuSample{.flags = 0,
                              .time_ns = timestamp(),
                              .period = clamped(missing),
                              .cpu = UINT32_MAX,
                              .chain = 0,
                              .python_chain = 0,
                              .instruction = 0});
    }
    thread.sampled_ns = used;
  }

  static std::uint32_t clamped(std::int64_t ns) noexcept {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(ns, UINT32_MAX));
  }

  // Returns how many there were.
  std::size_t write_samples() noexcept {
    take_met();
    std::size_t count = 0;
    for (std::size_t i = 0; i < count_; ++i) count += write_samples_of(*threads_[i]);
    return count;
  }

  std::size_t write_samples_of(SampledThread& thread) noexcept {
    std::size_t count = 0;
    thread.take_up([&](Sample& sample) {
      const std::int64_t period = static_cast<std::int64_t>(sample.periods) * 1'000'000'000 / hz_;
      thread.sampled_ns += period;
      ++count;
      if (LogLease log = recording_log()) write_sample(*log, thread, sample, period);
    });
    return count;
  }

  void write_sample(ThreadLog& log, SampledThread& thread, Sample& sample,
                    std::int64_t period) noexcept {
    NativeStack native;
    const bool is_whole = walk_copy(sample.stack, native);
    // A little more than the outermost frame's: there is nothing above it that a walk reads.
    const std::uint64_t end = native.bottoms[native.count - 1] + 256;
    thread.stack_end.store(is_whole && native.count < kMaxFrames ? end : 0, std::memory_order_relaxed);
    number_python(sample.python);
    // The instruction stands apart: what is above it has been there before, mostly.
    const std::uint64_t chain = write_frames(log, native.frames + 1, native.count - 1, StackOf::kOther);
    if (chain == 0) write_modules(log);
    const std::uint64_t python = write_python_stack(log, native, sample.python);
    if (!write_thread(log, thread.tid())) return;
    log.put(raw::CpuSample{.flags = raw::CpuSample::kHasInstruction,
                           .time_ns = static_cast<std::uint64_t>(sample.time_ns),
                           .period = clamped(period),
                           .cpu = sample.cpu,
                           .chain = chain,
                           .python_chain = python,
                           .instruction = native.frames[0]});
  }

  // What follows in the log is a thread's.
  bool write_thread(ThreadLog& log, pid_t tid) noexcept {
    if (tid == written_tid_ && &log == written_log_) return true;
    char name[16];
    const std::string_view found = read_of_thread(tid, "comm", name, sizeof name);
    const std::size_t bytes = found.ends_with('\n') ? found.size() - 1 : found.size();
    std::uint64_t letters[2] = {};
    std::memcpy(letters, name, bytes);
    if (!log.put(raw::Thread{.time_ns = timestamp(),
                             .tid = static_cast<std::uint64_t>(tid),
                             .name_low = letters[0],
                             .name_high = letters[1]})) {
      return false;
    }
    written_tid_ = tid;
    written_log_ = &log;
    return true;
  }

  void note(raw::CudaNote what, std::string_view text) noexcept {
    if (LogLease log = definition_log()) {
      log->define(raw::Kind::kNote, static_cast<std::uint32_t>(what), timestamp(), text);
    }
  }

  void tell_dropped() noexcept {
    std::uint64_t dropped = dropped_;
    for (std::size_t i = 0; i < count_; ++i) {
      dropped += threads_[i]->dropped.load(std::memory_order_relaxed);
    }
    if (dropped == told_) return;
    char text[24];
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(dropped - told_));
    note(raw::CudaNote::kCpuSamplesDropped, text);
    told_ = dropped;
  }

  std::uint32_t hz_ = 0;
  bool has_python_ = false;
  pid_t pid_ = 0;  // of the process that it is in
  std::atomic<State> state_{State::kNone};
  std::atomic<SampledThread*> met_{nullptr};  // what the watcher has not taken in yet
  pid_t own_tid_ = 0;
  std::uint64_t seen_threads_ = 0;
  bool is_refused_ = false;
  std::uint64_t dropped_ = 0;  // of threads that have ended
  std::uint64_t told_ = 0;
  pid_t written_tid_ = 0;
  const ThreadLog* written_log_ = nullptr;
  std::size_t count_ = 0;
  SampledThread* threads_[kMostThreads] = {};
};

constinit Watcher g_watcher;

// In a fork made with the C library's fork, before that returns.
void begin_in_fork() noexcept {
  const int error = errno;
  if (g_session.load(std::memory_order_acquire) != nullptr) g_watcher.begin_again();
  errno = error;
}

void begin_cpu_samples() noexcept {
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr || session->config.cpu_samples.hz == 0) return;
  static const bool is_told_of_forks = pthread_atfork(nullptr, nullptr, begin_in_fork) == 0;
  static_cast<void>(is_told_of_forks);
  g_watcher.begin(session->config.cpu_samples.hz, session->config.cpu_samples.python);
}

const Collector g_collector("cpu_samples", begin_cpu_samples, finish_cpu_samples);

}  // namespace

void finish_cpu_samples() noexcept { g_watcher.end(); }
void sample_this_thread() noexcept { g_watcher.meet(); }

}  // namespace warpline::agent
