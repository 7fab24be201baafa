#include "raw/trim.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <unordered_set>
#include <utility>

#include "failure.h"
#include "raw/log.h"
#include "raw/past.h"
#include "raw/tables.h"
#include "warpline_raw.h"

namespace warpline {

using raw::Kind;

namespace {

constexpr int64_t kFilePage = 4096;

// Who else can write to the directory of a log must not choose what is changed by a link. Files of this
// process that have no name are links.
int open_to_change(const std::string &path) {
  const bool is_own = path.starts_with("/proc/self/fd/");
  return open(path.c_str(), O_RDWR | O_CLOEXEC | (is_own ? 0 : O_NOFOLLOW));
}

// Changes a log in its place; does nothing where it cannot be opened.
class LogPatch {
 public:
  explicit LogPatch(const std::string &path) : file_(open_to_change(path)) {}
  ~LogPatch() {
    if (file_ >= 0) close(file_);
  }
  LogPatch(const LogPatch &) = delete;
  LogPatch &operator=(const LogPatch &) = delete;

  bool put(const void *data, int64_t bytes, int64_t at) const {
    int64_t done = 0;
    while (done < bytes) {
      const ssize_t wrote = pwrite(file_, static_cast<const char *>(data) + done,
                                   static_cast<std::size_t>(bytes - done), static_cast<off_t>(at + done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return false;
      done += wrote;
    }
    return true;
  }

  bool put_word(int64_t at, uint64_t value) const { return put(&value, sizeof value, at); }

  // Gives back the space of a part. Returns its bytes.
  int64_t punch(int64_t from, int64_t until) const {
    from = std::max<int64_t>(from, raw::kHeaderBytes);
    const int mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
    if (until <= from) return 0;
    const int result = fallocate(file_, mode, static_cast<off_t>(from), static_cast<off_t>(until - from));
    return result == 0 ? until - from : 0;
  }

 private:
  int file_;
};

class TrimmedLog {
 public:
  // Reads what is old. Throws as RawLog does.
  TrimmedLog(const std::string &path, const TrimPeriod &period) : path_(path) {
    RawLog log(path);  // closed at the end: there may be thousands of logs
    const raw::LogHeader &header = log.header();
    process_ = {header.pid, header.incarnation};
    first_ = log.first();
    past_end_ = first_ + static_cast<int64_t>(std::min<uint64_t>(header.past_bytes, kFarNs));
    trimmed_records_ = header.trimmed_records;
    read(log, period);
  }

  std::pair<uint32_t, uint64_t> process() const { return process_; }
  const LogPast &past() const { return past_; }
  // Whether enough is old to be replaced.
  bool is_written() const { return is_written_; }

  // Puts what stands for it in its place. Returns the bytes given back.
  int64_t write(const std::unordered_set<uint64_t> &over) {
    const LogPatch file(path_);
    const LogPast::Words records = past_.records(over);
    const auto bytes = static_cast<int64_t>(records.size() * 8);
    const int64_t first = cut_ - bytes;
    trimmed_records_ += static_cast<uint64_t>(past_.events_gone(over));
    if (!file.put(records.data(), bytes, first) ||
        !file.put_word(offsetof(raw::LogHeader, past_bytes), static_cast<uint64_t>(bytes)) ||
        !file.put_word(offsetof(raw::LogHeader, trimmed_records), trimmed_records_) ||
        !file.put_word(offsetof(raw::LogHeader, first_bytes), static_cast<uint64_t>(first))) {
      return 0;
    }
    const int64_t freed = file.punch(first_ / kFilePage * kFilePage, first / kFilePage * kFilePage);
    first_ = first;
    past_end_ = cut_;
    return freed;
  }

  // Makes padding of old records that were not replaced: where too few are old, and behind the first new
  // one, as CUPTI's are not in the order of time; and of those that are later than what is kept. What is
  // collected is so from then on: the work of
  // earlier launches is not missed.
  void pad(const TrimPeriod &period, const std::unordered_set<uint64_t> &over) {
    const LogPatch file(path_);
    RawLog log(path_);
    const std::unordered_set<int64_t> kept = past_.event_places(over);
    bool is_owner_gone = false;  // the event that payloads belong to
    for (int64_t at = first_; const uint64_t *record = record_at(log, at);) {
      const std::size_t words = raw::words_of(*record);
      const Kind kind = raw::kind_of(*record);
      const raw::KindFacts facts = raw::facts_of(kind);
      times_.see(record, words);
      const int64_t time_ns = times_.time_of(record, words, facts);
      if (kind == Kind::kCollecting && time_ns < period.from_ns) {
        file.put_word(at + facts.time_word * 8, static_cast<uint64_t>(period.from_ns));
      }
      // Of GPU work the begin: what was launched by then may end later.
      const bool is_late = times_.begin_of(record, words, facts) > period.until_ns;
      if (is_nvtx_event(kind) && kind != Kind::kPayload) {
        const bool is_past = at < cut_ && !is_written_ && kept.count(at) == 0;
        is_owner_gone = is_late || is_past;
      }
      const bool is_old = time_ns < period.from_ns;
      if (is_event(kind, facts) ? is_old || is_late : is_nvtx_event(kind) && is_owner_gone) {
        file.put_word(at, raw::header_word(Kind::kPad, 0, words, 0));
        trimmed_records_ += facts.is_counted;
      }
      at += static_cast<int64_t>(words * 8);
    }
    file.put_word(offsetof(raw::LogHeader, trimmed_records), trimmed_records_);
  }

 private:
  void read(RawLog &log, const TrimPeriod &period) {
    cut_ = first_;
    while (const uint64_t *record = record_at(log, cut_)) {
      const std::size_t words = raw::words_of(*record);
      times_.see(record, words);
      if (times_.is_new(record, words, period)) break;
      if (!past_.add(record, words, cut_)) return;  // damaged: finishing says so
      cut_ += static_cast<int64_t>(words * 8);
    }
    if (cut_ <= past_end_) return;
    const auto most = static_cast<int64_t>(past_.records({}).size() * 8);
    is_written_ = cut_ - most >= past_end_;
  }

  // What collectors record, beside NVTX.
  static bool is_event(Kind kind, const raw::KindFacts &facts) {
    return kind >= raw::kFirstSkipped && facts.is_known && facts.time_word != 0 &&
           facts.lasting == raw::Lasting::kNever;
  }

  static bool is_nvtx_event(Kind kind) { return kind >= Kind::kPush && kind <= Kind::kPayload; }

  static const uint64_t *record_at(RawLog &log, int64_t at) {
    const uint64_t *record = log.words(at, 1);
    if (record == nullptr || *record == 0) return nullptr;
    const std::size_t words = raw::words_of(*record);
    return words == 0 ? nullptr : log.words(at, words);
  }

  std::string path_;
  std::pair<uint32_t, uint64_t> process_;
  LogPast past_;
  RecordTimes times_;
  int64_t first_ = 0;
  int64_t past_end_ = 0;
  int64_t cut_ = 0;
  uint64_t trimmed_records_ = 0;
  bool is_written_ = false;
};

// Ids of the ranges of a process that begin and end in what is old of logs that are written, or at the end
// padded: both records go.
std::unordered_set<uint64_t> ranges_over(const std::vector<TrimmedLog *> &logs, bool is_last) {
  std::unordered_set<uint64_t> kept;
  for (const TrimmedLog *log : logs) {
    if (log->is_written() || is_last) continue;
    for (const auto &[id, start] : log->past().starts()) kept.insert(id);
  }
  std::unordered_set<uint64_t> over;
  for (const TrimmedLog *log : logs) {
    if (!log->is_written() && !is_last) continue;
    for (const auto &[id, stop] : log->past().stops()) {
      // One that began in no log began before the recording, or its start was trimmed.
      if (kept.count(id) == 0) over.insert(id);
    }
  }
  return over;
}

}  // namespace

int64_t trim_logs(const std::vector<std::string> &paths, const TrimPeriod &period) {
  std::vector<std::unique_ptr<TrimmedLog>> logs;
  std::map<std::pair<uint32_t, uint64_t>, std::vector<TrimmedLog *>> processes;
  for (const std::string &path : paths) {
    try {
      logs.push_back(std::make_unique<TrimmedLog>(path, period));
    } catch (const Failure &) {
      continue;  // it is gone, or no log
    }
    processes[logs.back()->process()].push_back(logs.back().get());
  }
  int64_t freed = 0;
  for (const auto &[process, of_process] : processes) {
    const std::unordered_set<uint64_t> over = ranges_over(of_process, period.is_last);
    for (TrimmedLog *log : of_process) {
      if (log->is_written()) freed += log->write(over);
      try {
        if (period.is_last) log->pad(period, over);
      } catch (const Failure &) {
        continue;  // it was deleted meanwhile
      }
    }
  }
  return freed;
}

}  // namespace warpline
