#include "json_parts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "json_bytes.h"
#include "json_text.h"

namespace warpline {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kEvents = "traceEvents";

// What a search looks for, and how far behind that the rest of a beginning may stand.
constexpr std::string_view kEventsBegin = "\"traceEvents\"";
constexpr std::string_view kEventBegins = "{";
constexpr std::string_view kFirstKeys[] = {"\"ph\"", "\"cat\"", "\"name\""};
constexpr std::ptrdiff_t kLookBytes = 64;

// The pad is as long as what may be looked at, so that all of this may stand at the end.
const char *skip_some_space(const char *at) {
  const char *past = at;
  while (past - at < kLookBytes / 4 && is_json_space(*past)) ++past;
  return past;
}

// Returns what follows a colon and an opening bracket, or nothing if they do not stand there.
const char *opening_bracket(const char *at) {
  const char *colon = skip_some_space(at);
  if (*colon != ':') return nullptr;
  const char *bracket = skip_some_space(colon + 1);
  return *bracket == '[' ? bracket + 1 : nullptr;
}

}  // namespace

const char *first_event_key(const char *at) {
  const char *key = skip_some_space(at);
  const auto is_here = [key](std::string_view name) {
    return std::memcmp(key, name.data(), name.size()) == 0;
  };
  return std::any_of(std::begin(kFirstKeys), std::end(kFirstKeys), is_here) ? key : nullptr;
}

JsonScan::JsonScan(const std::vector<std::string> &wanted, bool all, std::size_t memory_bytes)
    : arguments_(wanted, all), memory_bytes_(memory_bytes) {}

bool JsonScan::feed(const char *bytes, std::size_t count) {
  byte_count_ += static_cast<int64_t>(count);
  if (stop_ != JsonStop::none || trailing_at_ >= 0) return false;
  append(bytes, count);
  run();
  return check_memory();
}

bool JsonScan::check_memory() {
  if (stop_ == JsonStop::none && events_.bytes() + window_room_ > memory_bytes_) {
    stop(JsonStop::memory, at_);
  }
  return stop_ == JsonStop::none && trailing_at_ < 0;
}

void JsonScan::begin_inside(std::unique_ptr<char[]> text, std::size_t bytes) {
  window_ = std::move(text);
  window_room_ = bytes + kJsonPadBytes;
  byte_count_ = static_cast<int64_t>(bytes);
  at_ = window_.get();
  end_ = at_ + bytes;
  state_ = State::events;
  has_events_ = true;
}

void JsonScan::run_inside() { run(); }

bool JsonScan::take(const JsonScan &part) {
  byte_count_ += part.byte_count_;
  window_offset_ += part.byte_count_;
  loss_.not_events += part.loss_.not_events;
  loss_.bad_ts += part.loss_.bad_ts;
  loss_.bad_dur += part.loss_.bad_dur;
  loss_.cut_texts += part.loss_.cut_texts;
  loss_.long_values += part.loss_.long_values;
  loss_.deep_values += part.loss_.deep_values;
  loss_.long_events += part.loss_.long_events;
  loss_.more_arguments += part.loss_.more_arguments;
  events_.take(part.events_, arguments_);
  return check_memory();
}

void JsonScan::finish() {
  finish_text();
  events_.texts.end();
  window_.reset();
  at_ = end_ = nullptr;
  window_room_ = 0;
}

void JsonScan::finish_text() {
  if (stop_ != JsonStop::none) return;
  retry_bytes_ = 0;
  is_final_ = true;
  append("", 0);
  run();
  if (stop_ != JsonStop::none || state_ == State::done) return;
  if (state_ == State::search) {
    stop_ = JsonStop::syntax;
    stop_at_ = damaged_at_;
    return;
  }
  end_damage();
  const bool is_empty = state_ == State::start;
  stop(is_empty ? JsonStop::no_trace : JsonStop::cut, end_);
}

// Puts bytes behind what is not read yet.
void JsonScan::append(const char *bytes, std::size_t count) {
  const auto kept = static_cast<std::size_t>(end_ - at_);
  const std::size_t needed = kept + count + kJsonPadBytes;
  if (needed > window_room_) {
    const std::size_t room = std::max(needed, window_room_ * 2);
    std::unique_ptr<char[]> larger(new char[room]);
    if (kept != 0) std::memcpy(larger.get(), at_, kept);
    window_offset_ += window_ ? at_ - window_.get() : 0;
    window_ = std::move(larger);
    window_room_ = room;
  } else {
    window_offset_ += at_ - window_.get();
    std::memmove(window_.get(), at_, kept);
  }
  if (count != 0) std::memcpy(window_.get() + kept, bytes, count);
  std::memset(window_.get() + kept + count, 0, kJsonPadBytes);
  at_ = window_.get();
  end_ = at_ + kept + count;
}

void JsonScan::run() {
  if (static_cast<std::size_t>(end_ - at_) < retry_bytes_) return;
  retry_bytes_ = 0;
  for (;;) {
    if (state_ != State::skip && state_ != State::search) at_ = skip_json_space(at_);
    if (at_ >= end_) return;
    switch (advance()) {
      case Step::ok:
        break;
      case Step::bad:
        if (!begin_search()) return stop(JsonStop::syntax, bad_at_);
        break;
      case Step::more:
        if (stop_ != JsonStop::none || trailing_at_ >= 0) return;
        return wait();
    }
  }
}

// The element at `at_` is not whole. Trying only when it has doubled keeps the time linear.
void JsonScan::wait() {
  const auto held = static_cast<std::size_t>(end_ - at_);
  if (held >= kMaxEventBytes) {
    begin_skip();
    run();
  } else {
    retry_bytes_ = std::min(held * 2, kMaxEventBytes);
  }
}

JsonScan::Step JsonScan::advance() {
  switch (state_) {
    case State::start:
      return start();
    case State::member:
      return member();
    case State::events:
      return element();
    case State::skip:
      while (state_ == State::skip && at_ < end_) skip_on();
      return Step::ok;
    case State::search:
      return search();
    case State::done:
      return trailing();
  }
  return Step::bad;
}

JsonScan::Step JsonScan::start() {
  if (offset(at_) == 0) {
    const std::string_view head(at_, static_cast<std::size_t>(end_ - at_));
    if (head.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(head)) return Step::more;
    if (head.starts_with(kByteOrderMark)) {
      at_ += kByteOrderMark.size();
      return Step::ok;
    }
  }
  if (!opens_json(*at_)) {
    stop(JsonStop::no_trace, at_);
    return Step::more;
  }
  is_array_ = *at_ == '[';
  state_ = State::member;
  ++at_;
  if (is_array_) begin_events(at_);
  return Step::ok;
}

// A member of the outermost object, or what stands between two.
JsonScan::Step JsonScan::member() {
  if (*at_ == '}') {
    state_ = State::done;
    ++at_;
    return Step::ok;
  }
  const char *at = at_;
  if (*at == ',' && !is_first_member_) at = skip_json_space(at + 1);
  if (at >= end_) return Step::more;
  if (*at == '}') {
    at_ = at;
    return Step::ok;
  }
  Written key{};
  if (const Step step = read_string(at, key); step != Step::ok) return step;
  if (const Step step = colon(at); step != Step::ok) return step;
  is_first_member_ = false;
  return member_value(std::string(meant(key)), at);
}

JsonScan::Step JsonScan::member_value(const std::string &key, const char *at) {
  const bool is_events = key == kEvents;
  if (is_events && *at == '[') {
    begin_events(at + 1);
    return Step::ok;
  }
  const char *past = at;
  if (const Step step = skip_value(past); step != Step::ok) return step;
  if (is_events) {
    events_.clear();
  } else {
    keep_member(key, {at, static_cast<std::size_t>(past - at)});
  }
  at_ = past;
  return Step::ok;
}

void JsonScan::begin_events(const char *at) {
  events_.clear();
  loss_ = {};
  has_events_ = true;
  state_ = State::events;
  at_ = at;
}

void JsonScan::keep_member(std::string_view key, std::string_view value) {
  if (key.size() + value.size() > kMaxMemberBytes || member_offsets_.size() > 2 * kMaxMembers) {
    ++lost_members_;
    return;
  }
  for (const std::string_view text : {key, value}) {
    members_.append(repaired_utf8(text, repaired_));
    member_offsets_.push_back(static_cast<int64_t>(members_.size()));
  }
}

// An element of the array of events, or what stands between two.
JsonScan::Step JsonScan::element() {
  switch (*at_) {
    case '{':
      return event();
    case ',':
      ++at_;
      return Step::ok;
    case ']':
      end_damage();
      state_ = is_array_ ? State::done : State::member;
      ++at_;
      return Step::ok;
    default:
      break;
  }
  const char *at = at_;
  if (const Step step = skip_value(at); step != Step::ok) return step;
  ++loss_.not_events;
  at_ = at;
  return Step::ok;
}

// Gives up the element at `at_`, of which more is held than is kept of any.
void JsonScan::begin_skip() {
  skip_ = {};
  skip_.then = state_;
  if (state_ == State::events) ++loss_.long_events;
  if (state_ == State::member) {
    ++lost_members_;
    is_first_member_ = false;
  }
  state_ = State::skip;
}

// Goes on to the end of an element that is given up, however long it is: to the comma or the
// bracket behind it.
void JsonScan::skip_on() {
  if (skip_.is_escaped) {
    skip_.is_escaped = false;
    ++at_;
    return;
  }
  if (skip_.is_in_string) {
    at_ = std::min(find_json_quote(at_, end_), end_);
    if (at_ == end_) return;
    skip_.is_escaped = *at_ == '\\';
    skip_.is_in_string = skip_.is_escaped;
    ++at_;
    return;
  }
  if (skip_.depth == 0 && (*at_ == ',' || *at_ == ']' || *at_ == '}')) {
    state_ = skip_.then;
    return;
  }
  if (*at_ == '"') {
    skip_.is_in_string = true;
  } else if (opens_json(*at_)) {
    ++skip_.depth;
  } else if (*at_ == ']' || *at_ == '}') {
    --skip_.depth;
  } else {
    at_ = skip_.depth == 0 ? at_ + 1 : std::min(find_json_nesting(at_, end_), end_);
    return;
  }
  ++at_;
}

// Begins to look for the next event behind what is no JSON: one broken name must not cost the
// rest of a trace. Returns false where there is nothing to hope for.
bool JsonScan::begin_search() {
  if (state_ == State::member && has_events_) return false;
  reread_bytes_ += bad_at_ - at_;
  if (reread_bytes_ > kMaxRereadBytes) return false;
  if (damaged_at_ < 0) damaged_at_ = offset(bad_at_);
  searched_ = state_;
  state_ = State::search;
  ++at_;  // past the beginning of what is broken
  return true;
}

// Goes on to where events, or the next event, seem to begin.
JsonScan::Step JsonScan::search() {
  const bool is_event = searched_ == State::events;
  const std::string_view wanted = is_event ? kEventBegins : kEventsBegin;
  for (;;) {
    const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
    const std::size_t place = rest.find(wanted);
    if (place == std::string_view::npos) {
      // The last bytes may be the first of what is looked for.
      if (rest.size() >= wanted.size()) at_ = end_ - (wanted.size() - 1);
      return Step::more;
    }
    at_ += place;
    const char *past = at_ + wanted.size();
    const char *found = is_event ? first_event_key(past) : opening_bracket(past);
    if (found != nullptr) {
      end_search(is_event ? at_ : found);
      return Step::ok;
    }
    if (end_ - past < kLookBytes && !is_final_) return Step::more;
    ++at_;
  }
}

void JsonScan::end_search(const char *at) {
  at_ = at;
  if (searched_ == State::events) {
    state_ = State::events;  // an event with a phase ends the damage; before it, parts may follow
  } else {
    begin_events(at);
    end_damage();
  }
}

void JsonScan::end_damage() {
  if (damaged_at_ < 0) return;
  ++loss_.damages;
  if (loss_.damaged_at < 0) loss_.damaged_at = damaged_at_;
  damaged_at_ = -1;
}

JsonScan::Step JsonScan::trailing() {
  while (at_ < end_ && (*at_ == '\0' || is_json_space(*at_))) ++at_;
  if (at_ < end_) trailing_at_ = offset(at_);
  return at_ < end_ ? Step::more : Step::ok;
}

void JsonScan::stop(JsonStop why, const char *at) {
  stop_ = why;
  stop_at_ = offset(std::min(at, end_));
}

}  // namespace warpline
