// Tells when counting may take time, for tests in Python: see counters/pace.h.
//
// Input: a line for each call, with the time in ms: budget PPM BURST 0, begin SETUP NOW, spend MS NOW,
// afford IS_STARTED NOW, tick 0 NOW. Output for each: IS_RESTING BURST, and of afford its answer.
#include <cstdio>
#include <string_view>

#include "counters/pace.h"

using namespace warpline::agent;

int main() {
  Pace pace;
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    char word[16];
    long long value = 0;
    long long burst = 0;
    long long time = 0;
    if (std::sscanf(line, "budget %lld %lld %lld", &value, &burst, &time) == 3) {
      pace.configure(static_cast<std::uint64_t>(value), static_cast<std::uint64_t>(burst), time);
      continue;
    }
    if (std::sscanf(line, "%15s %lld %lld", word, &value, &time) != 3) return 1;
    const std::string_view call(word);
    const std::int64_t now_ns = time * 1'000'000;
    const std::int64_t value_ns = value * 1'000'000;
    bool is_affordable = true;
    if (call == "begin") pace.begin(now_ns - value_ns, now_ns);
    if (call == "spend") pace.spend(value_ns);
    if (call == "afford") is_affordable = pace.can_afford(value != 0, now_ns);
    if (call == "tick") pace.tick(now_ns);
    std::printf("%d %u %d\n", pace.is_resting(), pace.burst(), is_affordable);
    std::fflush(stdout);
  }
  return 0;
}
