#include "raw_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace warpline::sampler {
namespace {

constexpr std::size_t kMostWords = 8192;  // in memory

std::int64_t read_clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool write_all(int file, const void* bytes, std::size_t count, std::uint64_t at) {
  const auto* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = pwrite(file, from, count, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    at += static_cast<std::uint64_t>(done);
    count -= static_cast<std::size_t>(done);
  }
  return true;
}

// Writes the part of a header that changes with each record. What follows is changed by who trims the log.
bool write_counts(int file, const raw::LogHeader& header) {
  constexpr std::size_t kBegin = offsetof(raw::LogHeader, records);
  constexpr std::size_t kEnd = offsetof(raw::LogHeader, used_bytes) + sizeof header.used_bytes;
  return write_all(file, reinterpret_cast<const char*>(&header) + kBegin, kEnd - kBegin, kBegin);
}

}  // namespace

RawLog::RawLog(const std::string& folder, LogFacts facts) {
  char name[96];
  // Numbers of the agent's logs count from 0.
  std::snprintf(name, sizeof name, "/%u-%016llx-0.outside.wlraw", facts.pid,
                static_cast<unsigned long long>(facts.incarnation));
  path_ = folder + name;
  std::memcpy(header_.magic, raw::kMagic, sizeof raw::kMagic);
  header_.version = raw::kVersion;
  header_.header_bytes = raw::kHeaderBytes;
  header_.writer = 1;
  header_.pid = facts.pid;
  header_.ppid = facts.ppid;
  header_.incarnation = facts.incarnation;
  header_.forked_from_pid = facts.forked_from_pid;
  header_.forked_from_incarnation = facts.forked_from_incarnation;
  header_.anchor_monotonic_ns = read_clock_ns(CLOCK_MONOTONIC);
  header_.anchor_utc_ns = read_clock_ns(CLOCK_REALTIME);
  header_.used_bytes = raw::kHeaderBytes;
  gethostname(header_.host, sizeof header_.host - 1);
  const std::size_t bytes = std::min(facts.executable.size(), sizeof header_.executable - 1);
  std::memcpy(header_.executable, facts.executable.data(), bytes);
}

RawLog::~RawLog() { flush(); }

std::uint64_t* RawLog::add(std::size_t words) {
  if (words_.size() + words > kMostWords) flush();
  const std::size_t at = words_.size();
  words_.resize(at + words);
  return words_.data() + at;
}

void RawLog::put_words(raw::Kind kind, std::uint64_t number, const std::uint64_t* words,
                       std::size_t count) {
  std::uint64_t* room = add(2 + count);
  room[0] = raw::header_word(kind, 0, 2 + count, 0);
  room[1] = number;
  std::copy(words, words + count, room + 2);
}

void RawLog::put_text(raw::Kind kind, std::uint64_t first, std::string_view text,
                      std::uint32_t aux) {
  const std::size_t text_words = raw::words_for(text.size());
  std::uint64_t* room = add(3 + text_words);
  room[0] = raw::header_word(kind, 0, 3 + text_words, aux);
  room[1] = first;
  room[2] = text.size();
  if (text_words != 0) room[2 + text_words] = 0;
  std::memcpy(room + 3, text.data(), text.size());
}

bool RawLog::is_new_chain(raw::Kind kind, std::uint64_t number) {
  if (known_chains_.empty()) known_chains_.resize(kKnownChains);
  const std::uint64_t key = number ^ static_cast<std::uint64_t>(kind);
  std::uint64_t& known = known_chains_[key % kKnownChains];
  if (known == key) return false;
  known = key;
  return true;
}

bool RawLog::create() {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  // Before any record: these can be read then, even if this process is killed.
  write_all(file, &header_, sizeof header_, 0);
  close(file);
  is_created_ = true;
  return true;
}

void RawLog::flush() {
  if (words_.empty() && !is_created_) return;
  // The file is not kept open: there may be more processes than files that one may have.
  int file = -1;
  if (!is_broken_ && (is_created_ || create())) file = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  const std::size_t bytes = words_.size() * 8;
  raw::LogHeader next = header_;
  next.used_bytes += bytes;
  const bool is_written = file >= 0 && write_all(file, words_.data(), bytes, header_.used_bytes) &&
                          write_counts(file, next);
  if (is_written) {
    header_.used_bytes = next.used_bytes;
    flushed_records_ = header_.records;
  } else {
    // Later records may need what is missing now: the log ends here.
    is_broken_ = true;
    header_.dropped_records += header_.records - flushed_records_;
    header_.records = flushed_records_;
    if (file >= 0) write_counts(file, header_);
  }
  if (file >= 0) close(file);
  words_.clear();
}

void RawLog::end(std::uint64_t time_ns) {
  header_.closed_ns = static_cast<std::int64_t>(time_ns);
  flush();
}

}  // namespace warpline::sampler
