#include "json_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "json_bytes.h"

namespace warpline {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::size_t kHexDigits = 4;

std::optional<uint32_t> hex_value(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const auto lower = static_cast<char>(byte | 0x20);
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

// The four hexadecimal digits that follow a "\u" at `at`.
std::optional<uint32_t> code_unit(std::string_view written, std::size_t at) {
  if (at + 2 + kHexDigits > written.size() || written[at] != '\\' || written[at + 1] != 'u') {
    return std::nullopt;
  }
  uint32_t unit = 0;
  for (std::size_t i = 0; i < kHexDigits; ++i) {
    const auto digit = hex_value(written[at + 2 + i]);
    if (!digit) return std::nullopt;
    unit = unit << 4 | *digit;
  }
  return unit;
}

void append_utf8(uint32_t code, std::string &text) {
  const auto tail = [&](uint32_t shift) {
    text.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F)));
  };
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_high(uint32_t unit) { return (unit & 0xFC00) == 0xD800; }
bool is_low(uint32_t unit) { return (unit & 0xFC00) == 0xDC00; }

// Appends the character of a "\u" escape; returns where what follows it begins.
std::size_t append_unicode(std::string_view written, std::size_t at, std::string &text) {
  const auto unit = code_unit(written, at);
  if (!unit) {
    text.append("\\u");
    return at + 2;
  }
  at += 2 + kHexDigits;
  if (is_high(*unit)) {
    const auto low = code_unit(written, at);
    if (low && is_low(*low)) {
      append_utf8(0x10000 + ((*unit & 0x3FF) << 10 | (*low & 0x3FF)), text);
      return at + 2 + kHexDigits;
    }
  }
  if (is_high(*unit) || is_low(*unit)) {
    text.append(kReplacement);
  } else {
    append_utf8(*unit, text);
  }
  return at;
}

// The byte that a backslash before `byte` stands for; 0 if there is no such escape.
char simple_escape(char byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return byte;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return 0;
  }
}

struct Range {
  uint8_t low;
  uint8_t high;
};

// How many bytes follow a leading byte; 0 for one that leads nothing.
std::size_t followers(uint8_t lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 1;
  if (lead >= 0xE0 && lead <= 0xEF) return 2;
  return lead >= 0xF0 && lead <= 0xF4 ? 3 : 0;
}

// What the first byte after a leading byte may be: no long forms, no surrogates, no more than
// U+10FFFF.
Range first_follower(uint8_t lead) {
  switch (lead) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

struct Character {
  std::size_t bytes;
  bool is_valid;
};

// The character at `at`, or the longest part of one.
Character character(std::string_view text, std::size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return {1, true};
  const std::size_t wanted = followers(lead);
  Range range = first_follower(lead);
  for (std::size_t i = 1; i <= wanted; ++i) {
    if (at + i >= text.size()) return {i, false};
    const auto byte = static_cast<uint8_t>(text[at + i]);
    if (byte < range.low || byte > range.high) return {i, false};
    range = {0x80, 0xBF};
  }
  return {1 + wanted, wanted != 0};
}

}  // namespace

void unescape_json(std::string_view written, std::string &text) {
  std::size_t at = 0;
  while (at < written.size()) {
    const std::size_t escape = std::min(written.find('\\', at), written.size());
    text.append(written.substr(at, escape - at));
    at = escape;
    if (at == written.size()) return;
    if (at + 1 < written.size() && written[at + 1] == 'u') {
      at = append_unicode(written, at, text);
      continue;
    }
    const char meant = at + 1 < written.size() ? simple_escape(written[at + 1]) : '\0';
    text.append(meant != 0 ? std::string_view(&meant, 1) : written.substr(at, 2));
    at += 2;
  }
}

std::string_view repaired_utf8(std::string_view text, std::string &room) {
  if (is_ascii(text.data(), text.size())) return text;
  room.clear();
  std::size_t kept = 0;  // text[kept .. at) is valid and not in the room yet
  std::size_t at = 0;
  while (at < text.size()) {
    const Character found = character(text, at);
    if (!found.is_valid) {
      room.append(text.substr(kept, at - kept)).append(kReplacement);
      kept = at + found.bytes;
    }
    at += found.bytes;
  }
  if (kept == 0) return text;
  room.append(text.substr(kept));
  return room;
}

std::string_view cut_utf8(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<uint8_t>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace warpline
