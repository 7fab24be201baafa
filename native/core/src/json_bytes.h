// Finding the bytes that matter in JSON, 16 at a time where the processor can.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace warpline {

// Zero bytes that stand behind every window: what searches may read beyond its end.
constexpr std::size_t kJsonPadBytes = 64;

inline bool is_json_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// Whether a byte can be part of a number or a word outside of strings.
inline bool is_json_literal(char byte) {
  const auto lower = static_cast<char>(byte | 0x20);
  return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '+' ||
         (lower >= 'a' && lower <= 'z');
}

// Returns the first byte at or after `at` that is no white space. The pad is none.
inline const char *skip_json_space(const char *at) {
  while (is_json_space(*at)) ++at;
  return at;
}

#if defined(__SSE2__)

namespace json_detail {

inline __m128i load16(const char *at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
}

inline uint32_t equal16(__m128i bytes, char wanted) {
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted))));
}

}  // namespace json_detail

// Returns the first quote or backslash at or after `at`; `end` or later if there is none.
inline const char *find_json_quote(const char *at, const char *end) {
  for (; at < end; at += 16) {
    const __m128i bytes = json_detail::load16(at);
    const uint32_t found = json_detail::equal16(bytes, '"') | json_detail::equal16(bytes, '\\');
    if (found != 0) return at + __builtin_ctz(found);
  }
  return at;
}

// Returns the first quote, bracket or brace at or after `at`; `end` or later if there is none.
inline const char *find_json_nesting(const char *at, const char *end) {
  for (; at < end; at += 16) {
    const __m128i bytes = json_detail::load16(at);
    // One bit makes a bracket the brace of its side.
    const __m128i braces = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const uint32_t found = json_detail::equal16(bytes, '"') | json_detail::equal16(braces, '{') |
                           json_detail::equal16(braces, '}');
    if (found != 0) return at + __builtin_ctz(found);
  }
  return at;
}

// Whether no byte of the text is beyond ASCII. May read up to the pad behind it.
inline bool is_ascii(const char *text, std::size_t bytes) {
  __m128i seen = _mm_setzero_si128();
  for (; bytes >= 16; text += 16, bytes -= 16) {
    seen = _mm_or_si128(seen, json_detail::load16(text));
  }
  uint32_t high = static_cast<uint32_t>(_mm_movemask_epi8(seen));
  for (; bytes > 0; ++text, --bytes) high |= static_cast<uint8_t>(*text) & 0x80U;
  return high == 0;
}

#else

inline const char *find_json_quote(const char *at, const char *end) {
  while (at < end && *at != '"' && *at != '\\') ++at;
  return at;
}

inline const char *find_json_nesting(const char *at, const char *end) {
  while (at < end && *at != '"' && (*at | 0x20) != '{' && (*at | 0x20) != '}') ++at;
  return at;
}

inline bool is_ascii(const char *text, std::size_t bytes) {
  uint8_t seen = 0;
  for (; bytes > 0; ++text, --bytes) seen |= static_cast<uint8_t>(*text);
  return seen < 0x80;
}

#endif

}  // namespace warpline
