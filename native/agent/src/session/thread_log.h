// The log of one thread: an append-only, shared-mapped file, written without locks.
//
// To record an event:
//
//     LogLease log = recording_log();
//     if (!log) return;
//     log->put(raw::Pop{.domain = domain, .time_ns = time});
//
// A lease is held for the whole event, including definitions, and released when it goes out of
// scope: while a thread holds one, an event of the same thread (from a signal's handler, or from
// within the agent) gets none, so that a half-written record is never touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "warpline_raw.h"

namespace warpline::agent {

class ThreadLog;
struct Session;

// The right to write to this thread's log, or nothing. Move-only; lives on the stack.
class LogLease {
 public:
  LogLease() noexcept = default;
  explicit LogLease(ThreadLog* log) noexcept : log_(log) {}
  LogLease(LogLease&& other) noexcept : log_(other.log_) { other.log_ = nullptr; }
  LogLease(const LogLease&) = delete;
  LogLease& operator=(const LogLease&) = delete;
  LogLease& operator=(LogLease&&) = delete;
  inline ~LogLease();

  explicit operator bool() const noexcept { return log_ != nullptr; }
  ThreadLog* operator->() const noexcept { return log_; }
  ThreadLog& operator*() const noexcept { return *log_; }

 private:
  ThreadLog* log_ = nullptr;
};

// Returns the log of this thread if an event should be recorded now. Two loads and a compare when
// recording is off. Opens the thread's log at its first event; after a fork the child's first
// event opens a log of its own.
LogLease recording_log() noexcept;

// Returns the log of this thread whenever a session is attached, recording or not: for definitions
// that later events of other threads need (names of categories and threads, schemas).
LogLease definition_log() noexcept;

class ThreadLog {
 public:
  ThreadLog(const ThreadLog&) = delete;
  ThreadLog& operator=(const ThreadLog&) = delete;

  // Returns room for a record of `words` words (at most kMaxRecordWords), the header word
  // included; room[0] is not the caller's. nullptr when there is no space left: the loss is
  // counted here. The room is not zeroed: the caller writes every word.
  std::uint64_t* reserve(std::size_t words) noexcept {
    if (words > static_cast<std::size_t>(end_ - next_)) [[unlikely]] return reserve_slow(words);
    return next_;
  }

  // Makes a reserved record part of the log. `is_event` counts it; give it for kPush, kStart,
  // kMark. What is reserved and not committed was never there.
  void commit(std::uint64_t* room, raw::Kind kind, std::uint8_t flags, std::size_t words,
              std::uint32_t aux, bool is_event) noexcept {
    next_ = room + words;
    used_bytes_ += words * 8;
    // The header makes the record; nothing before it may be stored after it.
    __atomic_store_n(room, raw::header_word(kind, flags, words, aux), __ATOMIC_RELEASE);
    __atomic_store_n(&header_->used_bytes, used_bytes_, __ATOMIC_RELAXED);
    if (is_event) __atomic_store_n(&header_->records, ++records_, __ATOMIC_RELAXED);
  }

  // Writes a record, one of warpline_records.h, to room reserved for its words. `put` does both and
  // returns false when there is no space.
  template <class Record>
  void commit(std::uint64_t* room, const Record& record) noexcept {
    record.write(room);
    commit(room, Record::kKind, record.flags, record.words(), record.aux(), Record::kIsCounted);
  }
  template <class Record>
  bool put(const Record& record) noexcept {
    std::uint64_t* room = reserve(record.words());
    if (room == nullptr) return false;
    commit(room, record);
    return true;
  }

  // Finds the slot that stands for a text in this log until another text takes it: use it in the
  // very next record. Writes a kString record when the slot held another text. Texts longer than
  // kMaxTextBytes are cut (between characters of UTF-8) and counted. False when there is no space.
  bool intern(std::string_view text, std::uint32_t& slot) noexcept;

  // The same for a text that lives as long as the process and has a serial, counted from 1 over
  // the process (a registered string): it is written once per log, and keeps its slot, unless
  // there are too many of them.
  bool intern_registered(std::uint32_t serial, std::string_view text,
                         std::uint32_t& slot) noexcept;
  static constexpr bool writes_once(std::uint32_t serial) noexcept { return serial < kOnceBits; }
  static constexpr std::uint32_t slot_of(std::uint32_t serial) noexcept {
    return static_cast<std::uint32_t>(kTextSlots) + (writes_once(serial) ? serial : 0);
  }

  // Writes the kDomain record of a domain, counted from 1 over the process, once per log.
  bool define_domain(std::uint32_t domain, std::string_view name) noexcept;

  // Writes a definition: kCategory, kThreadName, kResourceName, kSchema, kEnum or kNote. `first`
  // is the word before the text's length; kThreadName has none. Bytes are cut at kMaxTextBytes,
  // but those of kSchema and kEnum, which are left out and counted when they are longer.
  bool define(raw::Kind kind, std::uint32_t aux, std::uint64_t first,
              std::string_view bytes) noexcept;

  // Returns a number that no other range of this process has: ranges may end in other threads.
  std::uint64_t next_range_id() noexcept { return range_id_base_ + ++range_ids_; }

  // Counts a text or payload that was cut or left out.
  void count_cut() noexcept { __atomic_fetch_add(&header_->cut_texts, 1, __ATOMIC_RELAXED); }

  static constexpr std::size_t kMaxRecordWords = 16384;

 private:
  friend class LogLease;
  friend struct ThreadLogs;  // opens, lends and takes back logs: thread_log.cpp


  static constexpr std::size_t kTextSlots = 1024;       // one per hash of a text
  static constexpr std::size_t kSlotTextBytes = 112;    // longer texts are written every time
  static constexpr std::size_t kOnceBits = 1u << 16;    // serials below are remembered
  static constexpr std::size_t kDomainBits = 1u << 10;  // domains below are remembered

  struct TextSlot {
    std::uint32_t bytes;  // one more than the text has; 0: none yet
    char text[kSlotTextBytes];
  };

  ThreadLog() noexcept = default;
  std::uint64_t* reserve_slow(std::size_t words) noexcept;
  bool grow(std::size_t words) noexcept;
  bool map_next(std::size_t words) noexcept;
  bool put_text(raw::Kind kind, std::uint32_t aux, const std::uint64_t* first,
                std::string_view text) noexcept;
  std::string_view cut(std::string_view text) noexcept;

  // The hot part, one cache line.
  std::uint64_t* next_ = nullptr;  // where the next record begins
  std::uint64_t* end_ = nullptr;   // end of the mapped block; next_ while nothing may be written
  raw::LogHeader* header_ = nullptr;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t range_ids_ = 0;
  std::uint64_t range_id_base_ = 0;
  std::uint32_t epoch_ = 0;  // of the switch word when this log was last written
  std::atomic<bool> is_leased_{false};  // seen by this thread's signal handlers only

  void* block_ = nullptr;            // the mapped part of the file
  std::size_t block_bytes_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::int64_t retry_at_ns_ = 0;     // while there is no space: when to look again
  std::uint64_t untold_dropped_ = 0; // events lost since the last kDropped record
  std::uint64_t number_ = 0;         // of the file, counted over the process
  std::uint64_t generation_ = 0;
  Session* session_ = nullptr;
  ThreadLog* next_free_ = nullptr;
  ThreadLog* next_of_all_ = nullptr;
  std::uint8_t registered_once_[kOnceBits / 8] = {};
  std::uint8_t domains_once_[kDomainBits / 8] = {};
  TextSlot texts_[kTextSlots] = {};
};

// Events of this process in the session attached.
std::uint64_t recorded_events() noexcept;

// Gets the memory that this library needs of the calling thread.
void meet_thread() noexcept;

// Notes in every log that the process ended normally.
void close_logs() noexcept;

inline LogLease::~LogLease() {
  // Release: what the event stored must not move below this, or a handler would write over it.
  if (log_ != nullptr) log_->is_leased_.store(false, std::memory_order_release);
}

}  // namespace warpline::agent
