#include "raw/log_backlog.h"

#include <algorithm>

namespace warpline {

using raw::Kind;

namespace {

constexpr int64_t kMarkBytes = 32 << 10;
constexpr int64_t kMarkNs = 50'000'000;

}  // namespace

void LogBacklog::reset(int64_t place, uint64_t events) {
  const std::size_t count = tails_.size();
  *this = LogBacklog(count);
  for (Tail &tail : tails_) tail.cut = place;
  gone_ = events;
  last_ = {place, 0, 0};
}

// As LogPast does, which only counts the others.
bool LogBacklog::matters(Kind kind, const raw::KindFacts &facts) {
  if (kind < raw::kFirstSkipped) return kind != Kind::kPad && kind != Kind::kClock;
  return facts.lasting != raw::Lasting::kNever || !facts.is_known;
}

bool LogBacklog::take(const uint64_t *record, std::size_t words, int64_t place, int64_t now_ns) {
  const Kind kind = raw::kind_of(*record);
  const raw::KindFacts facts = raw::facts_of(kind);
  if (facts.time_word >= words) return false;
  keep(record, words, place);
  if (place >= last_.place + kMarkBytes || latest_ns_ >= last_.latest_ns + kMarkNs) mark(place);
  if (kind == Kind::kCudaClock) times_.see(record, words);
  if (facts.lasting == raw::Lasting::kNever) {
    const int64_t time_ns = times_.time_of(record, words, facts);
    if (time_ns <= now_ns) latest_ns_ = std::max(latest_ns_, time_ns);
  }
  if (matters(kind, facts)) {
    kept_.push_back({place, words});
    words_.insert(words_.end(), record, record + words);
  } else {
    events_ += facts.is_counted;
  }
  return true;
}

void LogBacklog::keep(const uint64_t *record, std::size_t words, int64_t place) {
  if (chunks_.empty() || chunks_.back().words.size() + words > kChunkWords) {
    chunks_.push_back({place, {}});
    chunks_.back().words.reserve(std::max(kChunkWords, words));
  }
  std::vector<uint64_t> &all = chunks_.back().words;
  all.insert(all.end(), record, record + words);
}

void LogBacklog::mark(int64_t place) {
  last_ = {place, latest_ns_, events_};
  marks_.push_back(last_);
}

void LogBacklog::advance(const std::vector<int64_t> &from_ns) {
  for (std::size_t number = 0; number < tails_.size(); ++number) advance(tails_[number], from_ns[number]);
  drop();
}

void LogBacklog::advance(Tail &tail, int64_t from_ns) {
  const int64_t before = tail.cut;
  while (tail.next_mark < first_mark_ + marks_.size()) {
    const Mark &mark = marks_[tail.next_mark - first_mark_];
    if (mark.latest_ns >= from_ns) break;
    tail.cut = mark.place;
    tail.events = mark.events;
    ++tail.next_mark;
  }
  if (tail.cut == before) return;
  while (tail.next_kept < first_kept_ + kept_.size()) {
    const Kept &kept = kept_[tail.next_kept - first_kept_];
    if (kept.place >= tail.cut) break;
    tail.past.add(&words_[tail.next_word - first_word_], kept.words, kept.place);
    tail.next_word += kept.words;
    ++tail.next_kept;
  }
}

// Drops what all tails have gone by.
void LogBacklog::drop() {
  int64_t cut = chunks_.empty() ? 0 : chunks_.back().place;
  uint64_t mark = first_mark_ + marks_.size();
  uint64_t kept = first_kept_ + kept_.size();
  std::size_t word = first_word_ + words_.size();
  for (const Tail &tail : tails_) {
    cut = std::min(cut, tail.cut);
    mark = std::min(mark, tail.next_mark);
    kept = std::min(kept, tail.next_kept);
    word = std::min(word, tail.next_word);
  }
  while (!chunks_.empty() && chunks_.front().end() <= cut) chunks_.pop_front();
  marks_.erase(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(mark - first_mark_));
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(kept - first_kept_));
  first_mark_ = mark;
  first_kept_ = kept;
  if (word - first_word_ > words_.size() / 2) {  // moved seldom
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(word - first_word_));
    first_word_ = word;
  }
}

uint64_t LogBacklog::events_gone(std::size_t tail) const {
  const Tail &of = tails_[tail];
  return gone_ + of.events + static_cast<uint64_t>(of.past.events_gone({}));
}

void LogBacklog::add_ends(std::size_t tail, std::unordered_set<uint64_t> &ids) const {
  for (const auto &[id, stop] : tails_[tail].past.stops()) ids.insert(id);
}

}  // namespace warpline
