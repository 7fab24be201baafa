// Prints the period of calls, for tests in Python: see steps/launch_period.h.
//
// Input: a line for each call: NUMBER FUNCTION GRID TIME_NS; an empty line ends a sequence.
// Output for each: ANCHOR_NUMBER ANCHOR_FUNCTION LENGTH_NS REPETITIONS CALLS ANCHOR_CALLS, or "none".
#include <cstdio>
#include <vector>

#include "steps/launch_period.h"

using namespace warpline::agent;

int main() {
  std::vector<ObservedCall> calls;
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    unsigned long long number = 0;
    unsigned long long function = 0;
    unsigned long long grid = 0;
    long long time = 0;
    if (std::sscanf(line, "%llu %llu %llu %lld", &number, &function, &grid, &time) == 4) {
      calls.push_back({number | function << kFunctionBit | grid << kGridBit, time});
      continue;
    }
    if (const Period period = find_period(calls)) {
      std::printf("%llu %llu %lld %u %u %u\n",
                  static_cast<unsigned long long>(period.anchor & kCallNumber),
                  static_cast<unsigned long long>((period.anchor & kWithoutGrid) >> kFunctionBit),
                  static_cast<long long>(period.length_ns), period.repetitions, period.calls,
                  period.anchor_calls);
    } else {
      std::printf("none\n");
    }
    std::fflush(stdout);
    calls.clear();
  }
  return 0;
}
