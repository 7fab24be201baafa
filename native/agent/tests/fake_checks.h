// What the fakes of CUPTI's profilers check of each call.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace fake_checks {

inline constexpr int kInvalidParameter = 1;
inline constexpr int kUnknown = 999;

// Tells what a caller does wrong on standard error, and returns the result that it gets.
inline int tell(const char* function, const char* what, int result) {
  std::fprintf(stderr, "violation: %s: %s\n", function, what);
  return result;
}

// The result that a function is to give, of those in FAKE_COUNTERS_REFUSE; 0 for none.
inline int refused(std::string_view function) {
  const char* all = std::getenv("FAKE_COUNTERS_REFUSE");
  if (all == nullptr) return 0;
  const std::string_view text = all;
  const std::size_t at = text.find(std::string(function) + "=");
  return at == text.npos ? 0 : std::atoi(all + at + function.size() + 1);
}

// What all functions check of their parameters: their size, up to the last field. 0: all is well. The
// process is that of the first call, 0 if there was none.
template <class Parameters, class Last>
int check(const char* function, const Parameters* given, Last Parameters::*last, pid_t process) {
  if (const int result = refused(function)) return result;
  static const Parameters none{};
  const auto* begin = reinterpret_cast<const char*>(&none);
  const auto* end = reinterpret_cast<const char*>(&(none.*last)) + sizeof(Last);
  if (given->bytes != static_cast<std::size_t>(end - begin)) {
    return tell(function, "a size that CUPTI does not know", kInvalidParameter);
  }
  if constexpr (requires { given->reserved; }) {
    if (given->reserved != nullptr) return tell(function, "a reserved field", kInvalidParameter);
  }
  if (process != 0 && process != getpid()) {
    return tell(function, "called in a forked process", kUnknown);
  }
  return 0;
}

}  // namespace fake_checks
