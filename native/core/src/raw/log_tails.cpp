#include "raw/log_tails.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_set>

#include "failure.h"
#include "warpline_core.h"

namespace warpline {

namespace {

constexpr int kAttempts = 5;

}  // namespace

std::size_t LogTails::add_log(const char *path, int32_t process) {
  Tail tail;
  tail.path = path;
  tail.process = process;
  logs_.push_back(std::move(tail));
  return logs_.size() - 1;
}

void LogTails::advance(const TrimPeriod &period) {
  for (Tail &tail : logs_) {
    if (tail.path.empty()) continue;
    GrowingLog file(tail.path);
    if (file.is_open() && file.read_header()) advance(tail, file, period);
  }
  forget_ranges();
}

void LogTails::advance(Tail &tail, const GrowingLog &file, const TrimPeriod &period) {
  if (tail.cut < file.first()) {  // what is between was removed unseen
    tail.skipped += file.first() != int64_t{raw::kHeaderBytes};
    tail.past = {};
    tail.cut = file.first();
    tail.gone = file.header().trimmed_records;
  }
  file.walk(tail.cut, file.end(), [&](const uint64_t *record, std::size_t words, int64_t place) {
    tail.times.see(record, words);
    if (tail.times.is_new(record, words, period)) return Visited::kStop;
    return tail.past.add(record, words, place) ? Visited::kGoOn : Visited::kDamaged;
  });
}

// A range may end in another log: who has seen all ends knows which are over.
void LogTails::forget_ranges() {
  std::map<int32_t, std::unordered_set<uint64_t>> over;
  for (const Tail &tail : logs_) {
    for (const auto &[id, stop] : tail.past.stops()) over[tail.process].insert(id);
  }
  if (over.empty()) return;
  for (Tail &tail : logs_) {
    const auto found = over.find(tail.process);
    if (found != over.end()) tail.past.forget(found->second);
  }
}

int64_t LogTails::copy(std::size_t log, int target, const TrimPeriod &period) {
  Tail &tail = logs_[log];
  GrowingLog file(tail.path);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!file.is_open() || !file.read_header()) return 0;
    if (tail.cut < file.first()) advance(tail, file, period);  // it was trimmed
    const int64_t end = write(tail, file, target);
    tail.used = file.end();
    if (file.read_header() && file.first() <= tail.cut) return end;
  }
  return 0;
}

int64_t LogTails::write(const Tail &tail, const GrowingLog &file, int target) {
  const LogPast::Words past = tail.past.records({});
  const auto past_bytes = static_cast<int64_t>(past.size() * 8);
  const int64_t begin = int64_t{raw::kHeaderBytes} + past_bytes;
  const int64_t end = begin + std::max<int64_t>(file.end() - tail.cut, 0);
  raw::LogHeader header = file.header();
  header.first_bytes = 0;
  header.past_bytes = static_cast<uint64_t>(past_bytes);
  header.trimmed_records = tail.gone + static_cast<uint64_t>(tail.past.events_gone({}));
  header.used_bytes = static_cast<uint64_t>(end);
  std::vector<char> head(raw::kHeaderBytes + past.size() * 8);
  std::memcpy(head.data(), &header, sizeof header);
  if (!past.empty()) std::memcpy(head.data() + raw::kHeaderBytes, past.data(), past.size() * 8);
  // Of a damaged log there may be less: who reads the copy says so.
  const bool is_sized = ftruncate(target, 0) == 0 && ftruncate(target, static_cast<off_t>(end) + 8) == 0;
  const ssize_t wrote = is_sized ? pwrite(target, head.data(), head.size(), 0) : -1;
  if (wrote != static_cast<ssize_t>(head.size())) throw Failure(WL_IO, "cannot write the copy of a log");
  file.copy(tail.cut, tail.cut + (end - begin), target, begin);
  return end;
}

}  // namespace warpline
