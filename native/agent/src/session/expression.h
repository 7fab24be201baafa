// Regular expressions of the user, for names of the program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <regex>
#include <string_view>

namespace warpline::agent {

// The library searches by recursion, with some 270 bytes of the thread's stack for each character: 30,000 would
// crash the program. Names are searched up to this length.
inline constexpr std::size_t kMostSearched = 4096;

// Throws std::regex_error.
inline std::regex compiled(std::string_view text) {
  return std::regex(text.begin(), text.end(), std::regex::ECMAScript | std::regex::optimize);
}

// Whether an expression is found in a name.
inline bool is_found(const std::regex& expression, std::string_view name) {
  const std::string_view part = name.substr(0, kMostSearched);
  return std::regex_search(part.begin(), part.end(), expression);
}

}  // namespace warpline::agent
