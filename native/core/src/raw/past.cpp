#include "raw/past.h"

#include <algorithm>

namespace warpline {

using raw::Kind;

namespace {

void append_words(LogPast::Words &all, const LogPast::Words &some) {
  all.insert(all.end(), some.begin(), some.end());
}

}  // namespace

bool LogPast::add(const uint64_t *record, std::size_t words, int64_t place) {
  const Kind kind = raw::kind_of(*record);
  const raw::KindFacts facts = raw::facts_of(kind);
  if (kind == Kind::kPayload) {
    if (owner_ != nullptr) {
      owner_->words.insert(owner_->words.end(), record, record + words);
      owner_->places.push_back(place);
    }
    return true;
  }
  if (facts.time_word >= words) return false;
  events_ += facts.is_counted;
  if (facts.lasting != raw::Lasting::kNever || !facts.is_known) {
    last(record, words, facts);
    return true;
  }
  if (kind == Kind::kString) {
    slots_[raw::aux_of(*record)].assign(record, record + words);
    return true;
  }
  owner_ = nullptr;
  return add_event(record, words, place);
}

bool LogPast::add_event(const uint64_t *record, std::size_t words, int64_t place) {
  switch (raw::kind_of(*record)) {
    case Kind::kThread:
      thread_.assign(record, record + words);
      open_.clear();
      return true;
    case Kind::kPush:
      return on_push(record, words, place);
    case Kind::kPop: {
      const auto domain = open_.find(raw::aux_of(*record));
      if (domain != open_.end() && !domain->second.empty()) domain->second.pop_back();
      return true;
    }
    case Kind::kStart:
      return on_start(record, words, place);
    case Kind::kStop:
      if (words < 3) return false;
      if (starts_.erase(record[2]) == 0) stops_[record[2]] = {{record, record + words}, {place}};
      return true;
    case Kind::kWindow:
      if (raw::aux_of(*record) != 0) open_.clear();
      return true;
    case Kind::kDropped:
    case Kind::kThreadEnd:
      open_.clear();
      return true;
    default:
      return true;
  }
}

void LogPast::last(const uint64_t *record, std::size_t words, const raw::KindFacts &facts) {
  Key key{raw::kind_of(*record), raw::aux_of(*record), 0, {}};
  switch (facts.lasting) {
    case raw::Lasting::kByAuxAndWord:
      std::get<2>(key) = words > 1 ? record[1] : 0;
      break;
    case raw::Lasting::kByWord:
      std::get<1>(key) = 0;
      std::get<2>(key) = words > 1 ? record[1] : 0;
      break;
    case raw::Lasting::kLatest:
      std::get<1>(key) = 0;
      break;
    case raw::Lasting::kByContent:
    case raw::Lasting::kNever: {  // of a kind that is not known: it may matter
      const std::size_t first = 1 + facts.time_word;
      if (words > first) {
        std::get<3>(key).assign(reinterpret_cast<const char *>(record + first), (words - first) * 8);
      }
      break;
    }
    case raw::Lasting::kByAux:
      break;
  }
  const auto [place, is_new] = places_.try_emplace(std::move(key), lasting_.size());
  if (is_new) lasting_.emplace_back();
  lasting_[place->second].assign(record, record + words);
}

bool LogPast::on_push(const uint64_t *record, std::size_t words, int64_t place) {
  raw::Push push;
  if (!push.read(record, words)) return false;
  std::vector<Event> &domain = open_[push.domain];
  domain.push_back(event_of(record, words, place));
  owner_ = &domain.back();
  return true;
}

bool LogPast::on_start(const uint64_t *record, std::size_t words, int64_t place) {
  raw::Start start;
  if (!start.read(record, words)) return false;
  Event &kept = starts_[start.range_id];
  kept = event_of(record, words, place);
  owner_ = &kept;
  return true;
}

// With its text, as the slot may have another one later.
LogPast::Event LogPast::event_of(const uint64_t *record, std::size_t words, int64_t place) const {
  Event found{{}, {place}};
  const auto text = slots_.find(raw::aux_of(*record));
  if ((raw::flags_of(*record) & raw::Push::kHasNoName) == 0 && text != slots_.end()) {
    found.words = text->second;
  }
  found.words.insert(found.words.end(), record, record + words);
  return found;
}

std::vector<const LogPast::Event *> LogPast::events(const std::unordered_set<uint64_t> &over) const {
  std::vector<const Event *> found;
  for (const auto &[number, domain] : open_) {
    for (const Event &push : domain) found.push_back(&push);
  }
  for (const auto *ranges : {&starts_, &stops_}) {
    for (const auto &[id, event] : *ranges) {
      if (over.count(id) == 0) found.push_back(&event);
    }
  }
  std::sort(found.begin(), found.end(), [](const Event *a, const Event *b) {
    return a->places.front() < b->places.front();
  });
  return found;
}

int64_t LogPast::events_gone(const std::unordered_set<uint64_t> &over) const {
  int64_t left = 0;
  for (const auto &[id, start] : starts_) left += over.count(id) == 0;
  for (const auto &[number, domain] : open_) left += static_cast<int64_t>(domain.size());
  return std::max<int64_t>(events_ - left, 0);
}

LogPast::Words LogPast::records(const std::unordered_set<uint64_t> &over) const {
  Words all = thread_;
  for (const Words &record : lasting_) append_words(all, record);
  for (const Event *event : events(over)) append_words(all, event->words);
  for (const auto &[slot, text] : slots_) append_words(all, text);
  return all;
}

void LogPast::forget(const std::unordered_set<uint64_t> &over) {
  const auto is_over = [&](const auto &event) { return over.count(event.first) != 0; };
  std::erase_if(starts_, is_over);
  std::erase_if(stops_, is_over);
  owner_ = nullptr;  // it may be one of them: its payloads were read with it
}

std::unordered_set<int64_t> LogPast::event_places(const std::unordered_set<uint64_t> &over) const {
  std::unordered_set<int64_t> found;
  for (const Event *event : events(over)) found.insert(event->places.begin(), event->places.end());
  return found;
}

}  // namespace warpline
