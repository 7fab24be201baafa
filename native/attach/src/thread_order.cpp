#include "thread_order.h"

#include <dirent.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace warpline::attach {
namespace {

constexpr std::uint64_t kForever = 0xffffffff;  // -1, an int

std::string of_task(pid_t pid, pid_t tid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + name;
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

char state_of(pid_t pid, pid_t tid) {
  const std::string line = line_of(of_task(pid, tid, "stat"));
  const std::size_t name_end = line.rfind(')');
  return name_end == line.npos || name_end + 2 >= line.size() ? 'X' : line[name_end + 2];
}

#if defined(__x86_64__)
Disturbance disturbance_of(std::int64_t number, const std::array<std::uint64_t, 6>& arguments) {
  const auto unless = [](bool is_exact) { return is_exact ? Disturbance::kNone : Disturbance::kTimeout; };
  switch (number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_poll: return Disturbance::kSome;
    case SYS_futex: return arguments[3] == 0 ? Disturbance::kNone : Disturbance::kSome;
    case SYS_epoll_wait:
    case SYS_epoll_pwait: return unless((arguments[3] & kForever) == kForever);
    case SYS_epoll_pwait2:
    case SYS_semtimedop: return unless(arguments[3] == 0);
    case SYS_rt_sigtimedwait: return unless(arguments[2] == 0);
    case SYS_io_getevents: return unless(arguments[4] == 0);
    default: return Disturbance::kNone;
  }
}
#else
Disturbance disturbance_of(std::int64_t, const std::array<std::uint64_t, 6>&) { return Disturbance::kNone; }
#endif

Disturbance disturbance_of(const std::string& line) {
  std::int64_t number = -1;
  std::array<std::uint64_t, 6> arguments{};
  const int got = std::sscanf(line.c_str(), "%ld %lx %lx %lx %lx %lx %lx", &number, &arguments[0], &arguments[1],
                              &arguments[2], &arguments[3], &arguments[4], &arguments[5]);
  return got == 7 ? disturbance_of(number, arguments) : Disturbance::kRunning;
}

}  // namespace

std::vector<Candidate> candidates_of(pid_t pid) {
  std::vector<Candidate> found;
  DIR* folder = opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const auto tid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    const char state = tid > 0 ? state_of(pid, tid) : 'X';
    if (state != 'S' && state != 'R') continue;
    found.push_back({tid, disturbance_of(line_of(of_task(pid, tid, "syscall")))});
  }
  closedir(folder);
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& one, const Candidate& other) { return one.disturbance < other.disturbance; });
  return found;
}

std::int64_t queued_ns(pid_t pid, pid_t tid) {
  long long ran = 0, queued = 0;
  const int got = std::sscanf(line_of(of_task(pid, tid, "schedstat")).c_str(), "%lld %lld", &ran, &queued);
  return got == 2 ? queued : 0;
}

pid_t own_number(pid_t pid, pid_t tid) {
  std::ifstream file(of_task(pid, tid, "status"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    const std::size_t last = line.find_last_of(" \t");
    return static_cast<pid_t>(std::strtol(line.c_str() + last, nullptr, 10));
  }
  return 0;
}

}  // namespace warpline::attach
