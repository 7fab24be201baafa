// Samples the Python stacks of a process and prints them: python_stacks PID SECONDS HZ
//
// A line per stack: thread, whether it has the GIL, frames outermost first (name:file:line of the code's
// start:offset), and how often. The last line has counts.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "python/remote.h"

using namespace warpline;

namespace {

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  const pid_t pid = std::atoi(words[1]);
  const double length = std::atof(words[2]), period = 1 / std::atof(words[3]);
  sampler::RemotePythons pythons;
  const char* problem = nullptr;
  sampler::RemotePython* python = pythons.look_at(pid, problem);
  if (python == nullptr) {
    std::fprintf(stderr, "%s\n", problem == nullptr ? "no Python" : problem);
    return 1;
  }
  std::map<std::string, int> stacks;
  std::map<std::uint64_t, std::string> names;
  std::vector<char> room(stack::PythonCode::kMostBytes);
  sampler::RemotePythonStack found;
  int ticks = 0, unknown = 0;
  const double begin = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (double now = begin; now < begin + length; now = seconds(CLOCK_MONOTONIC), ++ticks) {
    if (!python->list_threads()) break;
    const std::vector<sampler::RemoteThread> threads = python->threads();
    for (const sampler::RemoteThread& thread : threads) {
      sampler::RemoteGil gil;
      python->read_gil(thread.gil, gil);
      if (!python->read(thread.tid, found)) continue;
      std::string text = std::to_string(thread.tid) + (gil.holder == thread.tid ? " GIL" : " -");
      for (std::size_t i = found.count; i-- > 0;) {
        const std::uint64_t number = found.frames[2 * i];
        std::string& name = names[number];
        stack::PythonCode code;
        if (name.empty() && python->read_code(number, found.code_addresses[i], code, room.data())) {
          name.assign(room.data() + code.text.file_bytes, code.text.name_bytes);
        }
        unknown += name.empty();
        text += ";" + name + ":" + std::to_string(found.frames[2 * i + 1] & raw::PythonFrame::kBeforeStart);
        if (found.entries[i] != 0) text += "*";
      }
      ++stacks[text];
    }
    const double rest = period * (0.5 + drand48()) - (seconds(CLOCK_MONOTONIC) - now);
    if (rest <= 0) continue;
    const timespec pause{static_cast<time_t>(rest), static_cast<long>((rest - static_cast<double>(static_cast<time_t>(rest))) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  for (const auto& [text, times] : stacks) std::printf("%s %d\n", text.c_str(), times);
  const sampler::RemoteCounts& counts = python->counts();
  std::printf("# ticks %d read %lu failed %lu cut %lu unsettled %lu unnamed %d cpu_us_per_tick %.1f\n",
              ticks, counts.read, counts.failed, counts.cut, counts.unsettled, unknown,
              1e6 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / ticks);
  return 0;
}
