// The part of JsonScan that reads one event.
#include <bit>

#include "json_parts.h"
#include "json_text.h"

namespace warpline {

JsonScan::Step JsonScan::event() {
  const char *at = at_;
  const JsonLoss before = loss_;
  event_.clear();
  Step step = event_members(at);
  if (step != Step::ok) {
    loss_ = before;  // it is read again, or given up
    return step;
  }
  at_ = at;
  // A part of a broken event may look like one, but has no phase.
  if (damaged_at_ >= 0 && event_.phase == 0) return Step::ok;
  end_damage();
  loss_.bad_ts += event_.ts.is_bad;
  loss_.bad_dur += event_.dur.is_bad;
  events_.add(event_);
  return Step::ok;
}

JsonScan::Step JsonScan::event_members(const char *&at) {
  at = skip_json_space(at + 1);
  if (*at == '}') {
    ++at;
    return Step::ok;
  }
  bool is_last = false;
  while (!is_last) {
    Written key{};
    if (const Step step = read_string(at, key); step != Step::ok) return step;
    if (const Step step = colon(at); step != Step::ok) return step;
    if (const Step step = event_member(meant(key), at); step != Step::ok) return step;
    if (const Step step = comma_or('}', at, is_last); step != Step::ok) return step;
  }
  return Step::ok;
}

JsonScan::Step JsonScan::event_member(std::string_view key, const char *&at) {
  switch (key.size()) {
    case 2:
      if (key == "ph") return read_phase(at);
      if (key == "ts") return read_time(at, event_.ts);
      if (key == "id") return read_text(at, event_.id);
      break;
    case 3:
      if (key == "cat") return read_text(at, event_.category, &category_);
      if (key == "pid") return read_text(at, event_.pid, &pid_);
      if (key == "tid") return read_text(at, event_.tid, &tid_);
      if (key == "dur") return read_time(at, event_.dur);
      break;
    case 4:
      if (key == "name") return read_text(at, event_.name);
      if (key == "args") return read_arguments(at);
      break;
    default:
      break;
  }
  return skip_value(at);
}

JsonScan::Step JsonScan::read_phase(const char *&at) {
  event_.phase = 0;
  if (*at != '"') return skip_value(at);
  Written written{};
  const Step step = read_string(at, written);
  if (step != Step::ok) return step;
  const std::string_view text = meant(written);
  const auto first = static_cast<uint8_t>(text.empty() ? '\0' : text[0]);
  event_.phase = first < 0x80 ? first : 0;
  return Step::ok;
}

// A text, or a number as it is written; anything else is none.
JsonScan::Step JsonScan::read_text(const char *&at, int32_t &number, Recent *recent) {
  number = kNoText;
  if (*at == '"') {
    Written written{};
    const Step step = read_string(at, written);
    if (step == Step::ok) number = intern(meant(written), recent);
    return step;
  }
  if (opens_json(*at)) return skip_value(at);
  const char *begin = at;
  std::string_view text;
  if (const Step step = read_literal(at, text); step != Step::ok) return step;
  const JsonLiteral literal =
      plain_integer(text) ? JsonLiteral::integer : classify_json_literal(text);
  if (literal == JsonLiteral::bad) return bad(begin);
  const bool is_number = literal == JsonLiteral::integer || literal == JsonLiteral::number;
  if (is_number) number = intern(text, recent);
  return Step::ok;
}

JsonScan::Step JsonScan::read_time(const char *&at, JsonTime &time) {
  time = {};
  const char *begin = at;
  std::string_view text;
  if (*at == '"') {
    Written written{};
    if (const Step step = read_string(at, written); step != Step::ok) return step;
    text = written.view();
  } else if (opens_json(*at)) {
    time.is_bad = true;
    return skip_value(at);
  } else if (const Step step = read_literal(at, text); step != Step::ok) {
    return step;
  }
  const auto found = decimal_us_to_ns(text);
  time.is_there = found && *found < kMaxTimeNs && *found > -kMaxTimeNs;
  if (time.is_there) {
    time.ns = *found;
    return Step::ok;
  }
  if (*begin == '"') {
    time.is_bad = true;
    return Step::ok;
  }
  const JsonLiteral literal = classify_json_literal(text);
  time.is_bad = literal != JsonLiteral::null;
  return literal == JsonLiteral::bad ? bad(begin) : Step::ok;
}

JsonScan::Step JsonScan::read_arguments(const char *&at) {
  event_.arguments.clear();
  if (*at != '{') return skip_value(at);
  at = skip_json_space(at + 1);
  bool is_last = *at == '}';
  if (is_last) ++at;
  while (!is_last) {
    Written key{};
    if (const Step step = read_string(at, key); step != Step::ok) return step;
    if (const Step step = colon(at); step != Step::ok) return step;
    const int32_t argument = arguments_.find(meant(key), events_);
    const Step step = argument >= 0 ? read_value(at, argument) : skip_value(at);
    if (step != Step::ok) return step;
    loss_.more_arguments += argument == JsonArguments::kTooMany;
    if (const Step next = comma_or('}', at, is_last); next != Step::ok) return next;
  }
  return Step::ok;
}

JsonScan::Step JsonScan::read_value(const char *&at, int32_t key) {
  if (*at == '[' || *at == '{') return read_nested(at, key);
  if (*at == '"') {
    Written written{};
    const Step step = read_string(at, written);
    if (step == Step::ok) keep(key, JsonKind::text, intern(meant(written)));
    return step;
  }
  const char *begin = at;
  std::string_view text;
  if (const Step step = read_literal(at, text); step != Step::ok) return step;
  return keep_literal(text, key) ? Step::ok : bad(begin);
}

JsonScan::Step JsonScan::read_nested(const char *&at, int32_t key) {
  const char *begin = at;
  uint32_t deepest = 0;
  const Step step = skip_nested(at, deepest);
  if (step != Step::ok) return step;
  const auto bytes = static_cast<std::size_t>(at - begin);
  if (deepest > kMaxDepth) {
    ++loss_.deep_values;
  } else if (bytes > kMaxTextBytes) {
    ++loss_.long_values;
  } else {
    keep(key, JsonKind::json, intern({begin, bytes}));
  }
  return Step::ok;
}

bool JsonScan::keep_literal(std::string_view text, int32_t key) {
  if (const auto value = plain_integer(text)) {
    keep(key, JsonKind::integer, *value);
    return true;
  }
  switch (classify_json_literal(text)) {
    case JsonLiteral::null:
      keep(key, JsonKind::null, 0);
      return true;
    case JsonLiteral::no:
    case JsonLiteral::yes:
      keep(key, JsonKind::boolean, text == "true");
      return true;
    case JsonLiteral::integer:
      if (const auto value = decimal_to_int64(text)) {
        keep(key, JsonKind::integer, *value);
      } else {
        keep(key, JsonKind::large_integer, intern(text));
      }
      return true;
    case JsonLiteral::number: {
      const double value = json_number_to_double(text);
      keep(key, JsonKind::real, std::bit_cast<int64_t>(value));
      return true;
    }
    case JsonLiteral::bad:
      break;
  }
  return false;
}

void JsonScan::keep(int32_t key, JsonKind kind, int64_t value) {
  event_.arguments.push_back({key, {kind, value}});
}

// Returns the number of a text, which is repaired and cut if it must be.
int32_t JsonScan::intern(std::string_view text) {
  if (text.size() > kMaxTextBytes) ++loss_.cut_texts;
  return events_.texts.intern(cut_utf8(repaired_utf8(text, repaired_), kMaxTextBytes));
}

// The same, by the memory of what the field held last: categories, processes and threads hardly
// ever change from one event to the next.
int32_t JsonScan::intern(std::string_view text, Recent *recent) {
  if (recent == nullptr) return intern(text);
  if (recent->number < 0 || recent->text != text) {
    recent->number = intern(text);
    recent->text = text;
  }
  return recent->number;
}

}  // namespace warpline
