#include "raw/session_follower.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_set>
#include <utility>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

namespace {

constexpr int kAttempts = 5;
constexpr std::size_t kMostWords = std::size_t{1} << 18;  // of a backlog, until it is looked through

}  // namespace

void SessionFollower::add_log(const char *path, int32_t process) {
  Log log;
  log.path = path;
  log.recent.process = process;
  log.backlog = LogBacklog(tails_);
  logs_.push_back(std::move(log));
}

SessionFollower::Facts SessionFollower::read(int64_t now_ns, int64_t work_from_ns,
                                             const std::vector<int64_t> &from_ns) {
  work_.begin(work_from_ns);
  Facts facts;
  for (Log &log : logs_) {
    if (log.path.empty()) continue;
    if (!log.state.is_over) read(log, now_ns, from_ns);
    log.backlog.advance(from_ns);
    facts.lost += log.dropped;
    facts.damaged += log.state.is_damaged;
    facts.skipped += log.state.skipped;
  }
  forget_ranges();
  facts.missing_from_ns = work_.end();
  facts.lost += work_.lost();
  return facts;
}

void SessionFollower::read(Log &log, int64_t now_ns, const std::vector<int64_t> &from_ns) {
  GrowingLog file(log.path);
  if (!file.is_open()) {
    log.state.is_over = true;  // it was deleted
    return;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    log.state.is_damaged = !file.read_header();
    if (log.state.is_damaged) return;
    if (log.at < file.first()) {
      log.state.skipped += file.first() != int64_t{raw::kHeaderBytes};
      log.at = file.first();
      log.backlog.reset(log.at, file.header().trimmed_records);
    }
    log.header = file.header();
    log.dropped = summable(file.header().dropped_records);
    log.state.is_damaged = log.at == log.stuck_at || !walk(log, file, now_ns, from_ns);
    if (log.state.is_damaged) log.stuck_at = log.at;
    log.state.end = file.end();
    if (!log.state.is_damaged) return;
    // What was to be read may have been removed meanwhile.
    if (!file.read_header() || file.first() <= log.at) return;
  }
}

bool SessionFollower::walk(Log &log, const GrowingLog &file, int64_t now_ns,
                           const std::vector<int64_t> &from_ns) {
  const auto visit = [&](const uint64_t *record, std::size_t words, int64_t place) {
    if (log.backlog.words() > kMostWords) log.backlog.advance(from_ns);
    const bool is_sound = work_.take(log.recent, record, words) &&
                          log.backlog.take(record, words, place, now_ns);
    return is_sound ? Visited::kGoOn : Visited::kDamaged;
  };
  return file.walk(log.at, file.end(), visit) == Walk::kDone;
}

// A range may end in another log: who has seen all ends knows which are over.
void SessionFollower::forget_ranges() {
  for (std::size_t tail = 0; tail < tails_; ++tail) {
    std::map<int32_t, std::unordered_set<uint64_t>> over;
    for (const Log &log : logs_) {
      if (!log.path.empty()) log.backlog.add_ends(tail, over[log.recent.process]);
    }
    for (Log &log : logs_) {
      if (log.path.empty()) continue;
      const auto &ids = over[log.recent.process];
      if (!ids.empty()) log.backlog.forget(tail, ids);
    }
  }
}

int64_t SessionFollower::copy(std::size_t tail, std::size_t number, int target) const {
  const Log &log = logs_[number];
  if (log.at == 0) return 0;
  const LogPast::Words past = log.backlog.past(tail);
  const auto past_bytes = static_cast<int64_t>(past.size() * 8);
  int64_t end = int64_t{raw::kHeaderBytes};
  bool is_written = true;
  const auto write = [&](const void *data, std::size_t bytes) {
    const ssize_t wrote = pwrite(target, data, bytes, static_cast<off_t>(end));
    is_written &= wrote == static_cast<ssize_t>(bytes);
    end += static_cast<int64_t>(bytes);
  };
  if (!past.empty()) write(past.data(), past.size() * 8);
  log.backlog.for_new(tail, [&](const uint64_t *words, std::size_t count) { write(words, count * 8); });
  raw::LogHeader header = log.header;
  header.first_bytes = 0;
  header.past_bytes = static_cast<uint64_t>(past_bytes);
  header.trimmed_records = log.backlog.events_gone(tail);
  // What could not be read is missing in the copy, too: who reads it says so.
  const int64_t unread = std::max<int64_t>(log.state.end - log.at, 0);
  header.used_bytes = static_cast<uint64_t>(end + unread);
  const int64_t used = end;
  const uint64_t zero = 0;  // a header of zero ends a log
  write(&zero, sizeof zero);
  is_written &= ftruncate(target, static_cast<off_t>(end)) == 0;
  is_written &= pwrite(target, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
  if (!is_written) throw Failure(WL_IO, "cannot write the copy of a log");
  return used;
}

}  // namespace warpline
