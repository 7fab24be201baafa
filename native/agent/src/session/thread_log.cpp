#include "session/thread_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "session/clock.h"
#include "session/process.h"
#include "session/space.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kRetryNs = 100'000'000;  // how often a full disk is looked at again
constexpr std::size_t kPathBytes = 4096 + 64;

struct ThreadState {
  ThreadLog* log;
  std::uint64_t generation;
  Session* session;
  bool is_opening;
  std::int64_t retry_at_ns;  // while it has no log because none could be made
};
thread_local constinit ThreadState t_mine{nullptr, 0, nullptr, false, 0};

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15 ^ text.size();
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t bytes = std::min<std::size_t>(text.size(), 8);
    std::memcpy(&word, text.data(), bytes);
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
    text.remove_prefix(bytes);
  }
  return hash;
}

bool path_of(const Session& session, std::uint64_t number, char (&path)[kPathBytes]) noexcept {
  const int length = std::snprintf(path, sizeof path, "%s/%u-%016llx-%llu.wlraw",
                                   session.folder.c_str(), g_process->pid,
                                   static_cast<unsigned long long>(g_process->incarnation),
                                   static_cast<unsigned long long>(number));
  return length > 0 && static_cast<std::size_t>(length) < sizeof path;
}

// Reserves space, so that no store to the mapping can fail for want of it (which is a signal).
bool allocate(int file, std::uint64_t offset, std::uint64_t bytes) noexcept {
  int result = 0;
  do {
    result = fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
  static const char zeros[4096] = {};
  for (std::uint64_t at = 0; at < bytes; at += sizeof zeros) {
    if (pwrite(file, zeros, sizeof zeros, static_cast<off_t>(offset + at)) !=
        static_cast<ssize_t>(sizeof zeros)) {
      return false;
    }
  }
  return true;
}

void* map_shared(int file, std::uint64_t offset, std::size_t bytes) noexcept {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                  static_cast<off_t>(offset));
  if (at == MAP_FAILED) return nullptr;
  // A fork has logs of its own; without a copy of this mapping it is made faster, too.
  madvise(at, bytes, MADV_DONTFORK);
  return at;
}

void fill_header(raw::LogHeader& header) noexcept {
  header.version = raw::kVersion;
  header.header_bytes = raw::kHeaderBytes;
  header.pid = g_process->pid;
  header.ppid = static_cast<std::uint32_t>(getppid());
  header.incarnation = g_process->incarnation;
  header.forked_from_pid = g_process->forked_from_pid;
  header.forked_from_incarnation = g_process->forked_from_incarnation;
  header.anchor_monotonic_ns = now_ns();
  header.anchor_utc_ns = read_clock_ns(CLOCK_REALTIME);
  header.used_bytes = raw::kHeaderBytes;
  gethostname(header.host, sizeof header.host - 1);
  const ssize_t length =
      readlink("/proc/self/exe", header.executable, sizeof header.executable - 1);
  header.executable[length < 0 ? 0 : length] = '\0';
  std::memcpy(header.magic, raw::kMagic, sizeof raw::kMagic);
}

// In our words, for strerror may allocate.
const char* reason_of(int error) noexcept {
  switch (error) {
    case EACCES:
    case EPERM:
      return "permission denied, possibly after a change of user";
    case EMFILE:
    case ENFILE:
      return "too many open files";
    case ENOENT:
    case ENOTDIR:
      return "the session directory does not exist in its file system";
    case EROFS:
      return "the file system is read-only";
    case ENOMEM:
      return "out of memory, or too many mappings";
    default:
      return "system error";
  }
}

// The program may look at errno after a call of ours as if there had been none.
class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept : kept_(errno) {}
  ~ErrnoKeeper() { errno = kept_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int kept_;
};

pthread_key_t g_thread_exit;

}  // namespace

struct ThreadLogs {
  // Returns this thread's log of the session, or nothing when it cannot have one now.
  static LogLease lend(Session* session) noexcept {
    const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
    if (t_mine.log != nullptr && t_mine.generation == generation && t_mine.session == session)
        [[likely]] {
      return lease(*t_mine.log);
    }
    // A signal's handler, while this thread opens or gives back its log.
    if (t_mine.is_opening || holds_process_lock()) return {};
    const bool is_same = t_mine.generation == generation && t_mine.session == session;
    if (is_same && now_ns() < t_mine.retry_at_ns) return {};
    const ErrnoKeeper keeper;
    t_mine.is_opening = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    open_mine(session);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_mine.is_opening = false;
    return t_mine.log == nullptr ? LogLease() : lease(*t_mine.log);
  }

  // Tells the log that recording was off since its last event, if it was.
  static bool is_up_to_date(ThreadLog& log, RecordingState now) noexcept {
    if (log.epoch_ == now.epoch) [[likely]] return true;
    if (!log.put(raw::Window{.is_on = 1, .time_ns = timestamp()})) return false;
    log.epoch_ = now.epoch;
    return true;
  }

  // Counts an event that is lost because this thread could not get a log, not one that comes while
  // the log is in use.
  [[gnu::noinline]] static void count_unlogged(Session& session) noexcept {
    if (t_mine.log == nullptr && !t_mine.is_opening) add(session.control->unlogged_events);
  }

  static std::uint64_t records() noexcept {
    if (g_process == nullptr) return 0;
    const ProcessLock lock;
    std::uint64_t sum = 0;
    const Session* session = g_session.load(std::memory_order_relaxed);
    for (auto* log = static_cast<ThreadLog*>(g_process->all_logs); log != nullptr;
         log = log->next_of_all_) {
      if (log->session_ == session) {
        sum += __atomic_load_n(&log->header_->records, __ATOMIC_RELAXED);
      }
    }
    return sum;
  }

  static void close_all() noexcept {
    if (g_process == nullptr) return;
    const ProcessLock lock;
    const std::int64_t now = now_ns();
    for (auto* log = static_cast<ThreadLog*>(g_process->all_logs); log != nullptr;
         log = log->next_of_all_) {
      __atomic_store_n(&log->header_->closed_ns, now, __ATOMIC_RELAXED);
    }
  }

  static void give_back(void* value) noexcept {
    auto* log = static_cast<ThreadLog*>(value);
    t_mine.log = nullptr;
    const ProcessLock lock;
    if (!is_of_this_process(log->generation_)) return;
    if (log->generation_ != g_process->generation.load(std::memory_order_relaxed)) {
      return retire(*log);  // of an earlier session
    }
    note_end_of_thread(*log);
    log->next_free_ = static_cast<ThreadLog*>(g_process->free_logs);
    g_process->free_logs = log;
  }

  // What the thread had pushed ends with it. Not while recording is off: it ended before that.
  static void note_end_of_thread(ThreadLog& log) noexcept {
    const Session* session = g_session.load(std::memory_order_acquire);
    if (session == nullptr || session != log.session_ || !recording_state(*session).is_on) return;
    log.put(raw::ThreadEnd{.time_ns = timestamp()});
  }

  // Tells why a log cannot be made, or not go on; once per process, but for a full disk.
  static void report_failure(raw::ControlPage& control, int error) noexcept {
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
      __atomic_store_n(&control.out_of_space, 1, __ATOMIC_RELAXED);
    } else if (!g_process->has_failed.exchange(true)) {
      char text[256];
      std::snprintf(text, sizeof text, "process %u cannot write its log: %s (errno %d)",
                    g_process->pid, reason_of(error), error);
      report_error(control, text);
    }
  }

 private:
  // Whether a log of this generation is mapped here: a fork has none of its parent's.
  static bool is_of_this_process(std::uint64_t generation) noexcept {
    return generation != 0 && generation >= g_process->first_generation;
  }

  static LogLease lease(ThreadLog& log) noexcept {
    if (log.is_leased_.load(std::memory_order_relaxed)) return {};
    log.is_leased_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return LogLease(&log);
  }

  static void open_mine(Session* session) noexcept {
    static const bool has_key = pthread_key_create(&g_thread_exit, give_back) == 0;
    const ProcessLock lock;
    if (g_process->generation.load(std::memory_order_relaxed) == 0) adopt_fork();
    const std::uint64_t generation = g_process->generation.load(std::memory_order_relaxed);
    // A signal's handler finds no log until this one is whole.
    ThreadLog* const old = is_of_this_process(t_mine.generation) ? t_mine.log : nullptr;
    t_mine = {nullptr, generation, session, true, 0};
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (old != nullptr) retire(*old);
    ThreadLog* log = take_free(session);
    if (log == nullptr) log = make(session, generation);
    if (log != nullptr && !name_thread(*log)) {
      retire(*log);
      log = nullptr;
    }
    if (log == nullptr) t_mine.retry_at_ns = now_ns() + kRetryNs;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_mine.log = log;
    if (has_key) pthread_setspecific(g_thread_exit, t_mine.log);
  }

  // A log that a thread left, of this session; those of earlier sessions are unmapped on the way.
  static ThreadLog* take_free(const Session* session) noexcept {
    while (auto* log = static_cast<ThreadLog*>(g_process->free_logs)) {
      g_process->free_logs = log->next_free_;
      if (log->session_ == session) return log;
      retire(*log);
    }
    return nullptr;
  }

  static ThreadLog* make(Session* session, std::uint64_t generation) noexcept {
    // Not from the program's heap: a fork may have left it locked, and most of this stays untouched.
    void* memory = mmap(nullptr, sizeof(ThreadLog), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* log = new (memory) ThreadLog;
    log->session_ = session;
    log->generation_ = generation;
    log->number_ = g_process->logs_made.fetch_add(1);
    log->range_id_base_ = (log->number_ + 1) << 40;
    log->epoch_ = recording_state(*session).epoch;
    if (!open_file(*log)) {
      report_failure(*session->control, errno);
      munmap(memory, sizeof(ThreadLog));
      return nullptr;
    }
    log->next_of_all_ = static_cast<ThreadLog*>(g_process->all_logs);
    g_process->all_logs = log;
    return log;
  }

  static bool open_file(ThreadLog& log) noexcept {
    char path[kPathBytes];
    if (!path_of(*log.session_, log.number_, path)) return false;
    if (!has_space(*log.session_, raw::kFirstBlockEnd)) return false;
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return false;
    fchmod(file, 0600);  // the program's mask may take our own rights away
    errno = 0;
    const std::size_t bytes = raw::kFirstBlockEnd - raw::kHeaderBytes;
    void* header = nullptr;
    void* block = nullptr;
    if (allocate(file, 0, raw::kFirstBlockEnd)) {
      header = map_shared(file, 0, raw::kHeaderBytes);
      block = map_shared(file, raw::kHeaderBytes, bytes);
    }
    const int error = errno;
    close(file);
    if (header == nullptr || block == nullptr) {
      if (header != nullptr) munmap(header, raw::kHeaderBytes);
      if (block != nullptr) munmap(block, bytes);
      unlink(path);
      errno = error;
      return false;
    }
    log.header_ = static_cast<raw::LogHeader*>(header);
    fill_header(*log.header_);
    log.block_ = block;
    log.block_bytes_ = bytes;
    log.file_bytes_ = raw::kFirstBlockEnd;
    log.used_bytes_ = raw::kHeaderBytes;
    log.next_ = static_cast<std::uint64_t*>(block);
    log.end_ = log.next_ + bytes / 8;
    return true;
  }

  static bool name_thread(ThreadLog& log) noexcept {
    std::uint64_t name[2] = {};  // 16 bytes of text
    prctl(PR_GET_NAME, name, 0, 0, 0);
    return log.put(raw::Thread{.time_ns = timestamp(),
                               .tid = static_cast<std::uint64_t>(syscall(SYS_gettid)),
                               .name_low = name[0],
                               .name_high = name[1]});
  }

  // Unmaps a log that no thread has any more. With the lock held.
  static void retire(ThreadLog& log) noexcept {
    void** at = &g_process->all_logs;
    while (*at != nullptr && *at != &log) {
      at = reinterpret_cast<void**>(&static_cast<ThreadLog*>(*at)->next_of_all_);
    }
    if (*at == &log) *at = log.next_of_all_;
    log.header_->closed_ns = now_ns();
    munmap(log.block_, log.block_bytes_);
    munmap(log.header_, raw::kHeaderBytes);
    munmap(&log, sizeof(ThreadLog));
  }
};

LogLease recording_log() noexcept {
  Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return {};
  const RecordingState now = recording_state(*session);
  if (!now.is_on) return {};
  LogLease log = ThreadLogs::lend(session);
  if (!log) [[unlikely]] {
    ThreadLogs::count_unlogged(*session);
  } else if (!ThreadLogs::is_up_to_date(*log, now)) {
    return {};
  }
  return log;
}

LogLease definition_log() noexcept {
  Session* session = g_session.load(std::memory_order_acquire);
  return session == nullptr ? LogLease() : ThreadLogs::lend(session);
}

// All variables of a thread are in one block, which its first look at one of them gets.
void meet_thread() noexcept {
  const volatile ThreadState& mine = t_mine;
  static_cast<void>(mine.generation);
}

std::uint64_t recorded_events() noexcept { return ThreadLogs::records(); }
void close_logs() noexcept { ThreadLogs::close_all(); }

std::uint64_t* ThreadLog::reserve_slow(std::size_t words) noexcept {
  if (words > kMaxRecordWords) {
    count_cut();
    return nullptr;
  }
  while (words > static_cast<std::size_t>(end_ - next_)) {
    if (!grow(words)) {
      // Not even small records fit from now on: a pop without its push would close another range.
      end_ = next_;
      ++untold_dropped_;
      __atomic_store_n(&header_->dropped_records, header_->dropped_records + 1, __ATOMIC_RELAXED);
      return nullptr;
    }
  }
  return next_;
}

bool ThreadLog::grow(std::size_t words) noexcept {
  if (untold_dropped_ != 0 && now_ns() < retry_at_ns_) return false;
  const ErrnoKeeper keeper;
  retry_at_ns_ = now_ns() + kRetryNs;
  if (map_next(words)) return true;
  ThreadLogs::report_failure(*session_->control, errno);
  return false;
}

bool ThreadLog::map_next(std::size_t words) noexcept {
  const std::uint64_t block = session_->config.block_bytes;
  const std::uint64_t bytes = std::max<std::uint64_t>(
      std::min(file_bytes_, block), (words * 8 + 4096 + 4095) & ~std::uint64_t{4095});
  char path[kPathBytes];
  if (!path_of(*session_, number_, path)) return false;
  if (!has_space(*session_, file_bytes_ + bytes)) return false;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  void* next = allocate(file, file_bytes_, bytes) ? map_shared(file, file_bytes_, bytes) : nullptr;
  const int error = errno;
  close(file);
  errno = error;
  if (next == nullptr) return false;

  auto* old_end = static_cast<std::uint64_t*>(block_) + block_bytes_ / 8;
  if (next_ != old_end) {
    const std::uint64_t pad = raw::header_word(raw::Kind::kPad, 0,
                                               static_cast<std::size_t>(old_end - next_), 0);
    __atomic_store_n(next_, pad, __ATOMIC_RELEASE);
  }
  munmap(block_, block_bytes_);
  block_ = next;
  block_bytes_ = bytes;
  used_bytes_ = file_bytes_;
  file_bytes_ += bytes;
  next_ = static_cast<std::uint64_t*>(next);
  end_ = next_ + bytes / 8;
  const std::int64_t monotonic = now_ns();
  put(raw::Clock{.monotonic_ns = static_cast<std::uint64_t>(monotonic),
                 .utc_ns = static_cast<std::uint64_t>(read_clock_ns(CLOCK_REALTIME))});
  if (untold_dropped_ != 0) {
    put(raw::Dropped{.time_ns = static_cast<std::uint64_t>(monotonic), .events = untold_dropped_});
    untold_dropped_ = 0;
  }
  return true;
}

std::string_view ThreadLog::cut(std::string_view text) noexcept {
  if (text.size() <= raw::kMaxTextBytes) return text;
  count_cut();
  std::size_t bytes = raw::kMaxTextBytes;
  for (int back = 0; back < 3 && (text[bytes] & 0xc0) == 0x80; ++back) --bytes;
  return text.substr(0, bytes);
}

bool ThreadLog::put_text(raw::Kind kind, std::uint32_t aux, const std::uint64_t* first,
                         std::string_view text) noexcept {
  const std::size_t text_words = raw::words_for(text.size());
  const std::size_t words = 2 + text_words + (first == nullptr ? 0 : 1);
  std::uint64_t* room = reserve(words);
  if (room == nullptr) return false;
  std::uint64_t* at = room + 1;
  if (first != nullptr) *at++ = *first;
  *at++ = text.size();
  if (text_words != 0) at[text_words - 1] = 0;
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  commit(room, kind, 0, words, aux, false);
  return true;
}

bool ThreadLog::intern(std::string_view text, std::uint32_t& slot) noexcept {
  const std::uint64_t hash = hash_of(text);
  slot = static_cast<std::uint32_t>(hash % kTextSlots);
  TextSlot& known = texts_[slot];
  // The count is one more than the text's bytes: fresh memory, all zeros, is an empty slot.
  if (known.bytes == text.size() + 1 && std::memcmp(known.text, text.data(), text.size()) == 0) {
    return true;
  }
  if (!put_text(raw::Kind::kString, slot, nullptr, cut(text))) return false;
  known.bytes = 0;
  if (text.size() <= kSlotTextBytes) {
    std::memcpy(known.text, text.data(), text.size());
    known.bytes = static_cast<std::uint32_t>(text.size()) + 1;
  }
  return true;
}

bool ThreadLog::intern_registered(std::uint32_t serial, std::string_view text,
                                  std::uint32_t& slot) noexcept {
  const bool is_remembered = writes_once(serial);
  slot = slot_of(serial);
  const auto bit = static_cast<std::uint8_t>(1u << serial % 8);
  if (is_remembered && (registered_once_[serial / 8] & bit) != 0) return true;
  if (!put_text(raw::Kind::kString, slot, nullptr, cut(text))) return false;
  if (is_remembered) registered_once_[serial / 8] |= bit;
  return true;
}

bool ThreadLog::define_domain(std::uint32_t domain, std::string_view name) noexcept {
  const bool is_remembered = domain < kDomainBits;
  const auto bit = static_cast<std::uint8_t>(1u << domain % 8);
  if (is_remembered && (domains_once_[domain / 8] & bit) != 0) return true;
  if (!put_text(raw::Kind::kDomain, domain, nullptr, cut(name))) return false;
  if (is_remembered) domains_once_[domain / 8] |= bit;
  return true;
}

bool ThreadLog::define(raw::Kind kind, std::uint32_t aux, std::uint64_t first,
                       std::string_view bytes) noexcept {
  const bool is_whole = kind == raw::Kind::kSchema || kind == raw::Kind::kEnum;
  if (is_whole && bytes.size() > raw::kMaxPayloadBytes) {
    count_cut();
    return false;
  }
  const std::string_view kept = is_whole ? bytes : cut(bytes);
  return put_text(kind, aux, kind == raw::Kind::kThreadName ? nullptr : &first, kept);
}

}  // namespace warpline::agent
