// The literals of JSON, and what programs write in their place; decimal numbers without rounding.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace warpline {

enum class JsonLiteral : uint8_t { bad, null, no, yes, integer, number };

// Classifies a literal. Numbers may have a plus sign and leading zeros; "NaN", "Infinity" and
// what printf makes of them count as numbers.
JsonLiteral classify_json_literal(std::string_view text);

// Whether the text is a decimal number: [+-] digits [. digits] [e [+-] digits].
bool is_decimal(std::string_view text);

// Returns the integer that at most 18 digits stand for. Nothing: something else stands there.
std::optional<int64_t> plain_integer(std::string_view text);

// Returns the nanoseconds of a decimal number of microseconds, exactly; what is below 1 ns is
// rounded, halves away from zero. Nothing: no decimal number, or beyond int64.
std::optional<int64_t> decimal_us_to_ns(std::string_view text);

// Returns the integer that digits with an optional sign stand for. Nothing: beyond int64.
std::optional<int64_t> decimal_to_int64(std::string_view text);

// Returns the nearest double of a number: infinite beyond its range.
double json_number_to_double(std::string_view text);

}  // namespace warpline
