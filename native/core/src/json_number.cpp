#include "json_number.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>

namespace warpline {
namespace {

constexpr int64_t kMaxExponent = 1'000'000'000'000;  // more makes no difference
constexpr uint64_t kPowersOf10[] = {1, 10, 100, 1000};

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// A decimal number as it is written: sign, digits before and after the point, exponent.
struct Decimal {
  bool is_negative = false;
  std::string_view whole;
  std::string_view fraction;
  int64_t exponent = 0;

  char digit(std::size_t place) const {
    if (place < whole.size()) return whole[place];
    place -= whole.size();
    return place < fraction.size() ? fraction[place] : '0';
  }
  std::size_t digits() const { return whole.size() + fraction.size(); }
};

std::string_view take_digits(std::string_view &text) {
  const auto past = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto count = static_cast<std::size_t>(past - text.begin());
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

bool take_sign(std::string_view &text) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return false;
  const bool is_negative = text[0] == '-';
  text.remove_prefix(1);
  return is_negative;
}

std::optional<int64_t> take_exponent(std::string_view &text) {
  text.remove_prefix(1);
  const bool is_negative = take_sign(text);
  const std::string_view digits = take_digits(text);
  if (digits.empty()) return std::nullopt;
  int64_t value = 0;
  for (const char digit : digits) value = std::min(value * 10 + (digit - '0'), kMaxExponent);
  return is_negative ? -value : value;
}

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal decimal;
  decimal.is_negative = take_sign(text);
  decimal.whole = take_digits(text);
  if (decimal.whole.empty()) return std::nullopt;
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    decimal.fraction = take_digits(text);
    if (decimal.fraction.empty()) return std::nullopt;
  }
  if (!text.empty() && (text[0] | 0x20) == 'e') {
    const auto exponent = take_exponent(text);
    if (!exponent) return std::nullopt;
    decimal.exponent = *exponent;
  }
  return text.empty() ? std::optional(decimal) : std::nullopt;
}

// Where the first digit that is not zero stands; the number of digits if all are.
std::size_t first_digit(const Decimal &decimal) {
  std::size_t place = 0;
  while (place < decimal.digits() && decimal.digit(place) == '0') ++place;
  return place;
}

std::optional<int64_t> with_sign(uint64_t magnitude, bool is_negative) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (magnitude > kMost + (is_negative ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(is_negative ? 0 - magnitude : magnitude);
}

// The integer nearest to decimal * 10^shift, halves away from zero.
std::optional<int64_t> scaled(const Decimal &decimal, int64_t shift) {
  const std::size_t first = first_digit(decimal);
  if (first == decimal.digits()) return 0;
  // The digits [first, first + kept) are whole after the shift.
  const int64_t kept = static_cast<int64_t>(decimal.whole.size()) - static_cast<int64_t>(first) +
                       decimal.exponent + shift;
  if (kept < 0) return 0;
  if (kept > 19) return std::nullopt;
  uint64_t value = 0;  // 19 digits fit
  for (int64_t i = 0; i < kept; ++i) {
    value = value * 10 + static_cast<uint64_t>(decimal.digit(first + static_cast<std::size_t>(i)) - '0');
  }
  if (decimal.digit(first + static_cast<std::size_t>(kept)) >= '5') ++value;
  return with_sign(value, decimal.is_negative);
}

// As Kineto writes times: at most 16 digits before the point and 3 behind it. Nothing: otherwise.
std::optional<int64_t> plain_us_to_ns(std::string_view text) {
  const bool is_negative = take_sign(text);
  uint64_t value = 0;
  std::size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    value = value * 10 + static_cast<uint64_t>(text[at] - '0');
  }
  if (at == 0 || at > 16) return std::nullopt;
  std::size_t behind = 0;
  if (at < text.size()) {
    behind = text.size() - at - 1;
    if (text[at] != '.' || behind == 0 || behind > 3) return std::nullopt;
    for (++at; at < text.size(); ++at) {
      if (!is_digit(text[at])) return std::nullopt;
      value = value * 10 + static_cast<uint64_t>(text[at] - '0');
    }
  }
  return with_sign(value * kPowersOf10[3 - behind], is_negative);  // 19 digits fit
}

bool is_word(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char byte, char wanted) { return (byte | 0x20) == wanted; });
}

bool is_infinite(std::string_view text) { return is_word(text, "infinity") || is_word(text, "inf"); }

bool is_not_finite(std::string_view text) {
  take_sign(text);
  return is_word(text, "nan") || is_infinite(text);
}

}  // namespace

bool is_decimal(std::string_view text) { return parse_decimal(text).has_value(); }

JsonLiteral classify_json_literal(std::string_view text) {
  if (text == "null") return JsonLiteral::null;
  if (text == "true") return JsonLiteral::yes;
  if (text == "false") return JsonLiteral::no;
  std::string_view rest = text;
  take_sign(rest);
  const std::string_view digits = take_digits(rest);
  if (!digits.empty() && rest.empty()) return JsonLiteral::integer;
  return is_decimal(text) || is_not_finite(text) ? JsonLiteral::number : JsonLiteral::bad;
}

std::optional<int64_t> plain_integer(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (const char digit : text) {
    if (!is_digit(digit)) return std::nullopt;
    value = value * 10 + (digit - '0');
  }
  return value;
}

std::optional<int64_t> decimal_us_to_ns(std::string_view text) {
  if (const auto ns = plain_us_to_ns(text)) return ns;
  const auto decimal = parse_decimal(text);
  return decimal ? scaled(*decimal, 3) : std::nullopt;
}

std::optional<int64_t> decimal_to_int64(std::string_view text) {
  const auto decimal = parse_decimal(text);
  return decimal ? scaled(*decimal, 0) : std::nullopt;
}

double json_number_to_double(std::string_view text) {
  const bool is_negative = take_sign(text);
  double value = std::numeric_limits<double>::quiet_NaN();
  if (is_infinite(text)) {
    value = std::numeric_limits<double>::infinity();
  } else if (const auto decimal = parse_decimal(text)) {
#if defined(__cpp_lib_to_chars)
    const auto found = std::from_chars(text.data(), text.data() + text.size(), value);
    if (found.ec == std::errc::result_out_of_range) {
      const auto magnitude = static_cast<int64_t>(decimal->whole.size()) -
                             static_cast<int64_t>(first_digit(*decimal)) + decimal->exponent;
      value = magnitude > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    }
#else
    value = std::strtod(std::string(text).c_str(), nullptr);
#endif
  }
  return is_negative ? -value : value;
}

}  // namespace warpline
