// The parts of a value, as JsonScan reads them. Each function leaves `at` behind what it read.
// They are inline because both halves of the scan spend their time in them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "json_bytes.h"
#include "json_number.h"
#include "json_scan.h"
#include "json_text.h"

namespace warpline {

inline bool opens_json(char byte) { return byte == '{' || byte == '['; }

// The brackets that are open, innermost last; beyond the depth that is kept they are only counted.
class JsonNesting {
 public:
  uint32_t depth() const { return depth_; }

  void open(char byte) {
    if (depth_ < kWords * 64) {
      const uint64_t bit = uint64_t{1} << (depth_ % 64);
      uint64_t &word = words_[depth_ / 64];
      word = byte == '{' ? word | bit : word & ~bit;
    }
    ++depth_;
  }

  // Returns whether the byte closes what was opened last.
  bool close(char byte) {
    --depth_;
    if (depth_ >= kWords * 64) return true;
    const bool is_brace = (words_[depth_ / 64] >> (depth_ % 64) & 1) != 0;
    return is_brace == (byte == '}');
  }

 private:
  static constexpr uint32_t kWords = JsonScan::kMaxDepth / 64 + 1;
  uint64_t words_[kWords] = {};
  uint32_t depth_ = 0;
};

inline JsonScan::Step JsonScan::bad(const char *at) {
  if (at >= end_) return Step::more;
  bad_at_ = at;
  return Step::bad;
}

inline JsonScan::Step JsonScan::read_string(const char *&at, Written &written) {
  if (*at != '"') return bad(at);
  const char *found = find_json_quote(at + 1, end_);
  bool has_escapes = false;
  while (found < end_ && *found == '\\') {
    has_escapes = true;
    found = find_json_quote(found + 2, end_);
  }
  if (found >= end_) return Step::more;
  written = {at + 1, found, has_escapes};
  at = found + 1;
  return Step::ok;
}

inline JsonScan::Step JsonScan::read_literal(const char *&at, std::string_view &text) {
  const char *past = at;
  while (is_json_literal(*past)) ++past;
  if (past == at) return bad(at);
  if (past >= end_) return Step::more;
  text = {at, static_cast<std::size_t>(past - at)};
  at = past;
  return Step::ok;
}

inline JsonScan::Step JsonScan::skip_value(const char *&at) {
  uint32_t deepest = 0;
  if (opens_json(*at)) return skip_nested(at, deepest);
  if (*at == '"') {
    Written written{};
    return read_string(at, written);
  }
  const char *begin = at;
  std::string_view text;
  if (const Step step = read_literal(at, text); step != Step::ok) return step;
  return classify_json_literal(text) == JsonLiteral::bad ? bad(begin) : Step::ok;
}

inline JsonScan::Step JsonScan::skip_nested(const char *&at, uint32_t &deepest) {
  JsonNesting nesting;
  Written written{};
  for (;;) {
    const char *found = find_json_nesting(at, end_);
    if (found >= end_) return Step::more;
    at = found;
    if (*at == '"') {
      if (const Step step = read_string(at, written); step != Step::ok) return step;
      continue;
    }
    if (opens_json(*at)) {
      nesting.open(*at);
      deepest = std::max(deepest, nesting.depth());
    } else if (!nesting.close(*at)) {
      return bad(at);
    }
    ++at;
    if (nesting.depth() == 0) return Step::ok;
  }
}

inline JsonScan::Step JsonScan::colon(const char *&at) {
  at = skip_json_space(at);
  if (*at != ':') return bad(at);
  at = skip_json_space(at + 1);
  return at < end_ ? Step::ok : Step::more;
}

inline JsonScan::Step JsonScan::comma_or(char close, const char *&at, bool &is_last) {
  at = skip_json_space(at);
  is_last = *at == close;
  if (is_last) {
    ++at;
    return Step::ok;
  }
  if (*at != ',') return bad(at);
  at = skip_json_space(at + 1);
  is_last = *at == close;  // a comma too many
  if (is_last) ++at;
  return at < end_ || is_last ? Step::ok : Step::more;
}

inline std::string_view JsonScan::meant(const Written &written) {
  if (!written.has_escapes) return written.view();
  unescaped_.clear();
  unescape_json(written.view(), unescaped_);
  return unescaped_;
}

}  // namespace warpline
