#include "python/proc_images.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include "clock.h"
#include "images.h"

namespace warpline::sampler {
namespace {

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::string of_task(pid_t pid, pid_t tid, const char* name) {
  return folder_of(pid) + "/task/" + std::to_string(tid) + "/" + name;
}

// A number of /proc/PID/stat, whose fields count from 1; 0: there is none.
std::uint64_t field_of(pid_t pid, int wanted) {
  constexpr int kFirst = 3;  // behind the name, which may have spaces
  std::ifstream file(folder_of(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  const std::size_t name_end = line.rfind(')');
  if (name_end == line.npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int number = kFirst; number <= wanted; ++number) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

}  // namespace

pid_t parent_of(pid_t pid) {
  constexpr int kParent = 4;
  return static_cast<pid_t>(field_of(pid, kParent));
}

std::uint64_t start_of(pid_t pid) {
  constexpr int kStart = 22;  // in ticks since the machine was started, with the time that it was asleep
  const std::uint64_t ticks = field_of(pid, kStart);
  if (ticks == 0) return 0;
  timespec since_boot{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const std::uint64_t boot_ns = std::uint64_t(since_boot.tv_sec) * 1'000'000'000 +
                                std::uint64_t(since_boot.tv_nsec);
  const std::uint64_t start_ns = ticks * 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const std::uint64_t now = now_ns();
  const std::uint64_t age_ns = std::min(boot_ns - std::min(start_ns, boot_ns), now - 1);
  return now - age_ns;
}

std::string executable_of(pid_t pid) {
  char path[4096];
  const ssize_t bytes = readlink((folder_of(pid) + "/exe").c_str(), path, sizeof path);
  return bytes < 0 ? std::string() : std::string(path, static_cast<std::size_t>(bytes));
}

std::string identity_of_image(pid_t pid) {
  std::ifstream file(folder_of(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  const std::size_t name_end = line.rfind(')');
  if (name_end == line.npos || line.size() < name_end + 3) return {};
  const char state = line[name_end + 2];
  if (state == 'Z' || state == 'X') return {};
  std::istringstream fields(line.substr(name_end + 2));
  std::string identity = executable_of(pid), field;
  for (int number = 3; fields >> field; ++number) {
    // Where its code, its stack and its arguments lie, and since when the process exists.
    const bool is_kept = number == 22 || (number >= 26 && number <= 28) || number >= 48;
    if (is_kept && number < 52) identity += " " + field;
  }
  return identity;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> found;
  DIR* folder = opendir((folder_of(pid) + "/task").c_str());
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const long tid = std::strtol(entry->d_name, nullptr, 10);
    if (tid > 0) found.push_back(static_cast<pid_t>(tid));
  }
  closedir(folder);
  return found;
}

std::vector<pid_t> children_of(pid_t pid, pid_t tid) {
  std::ifstream file(of_task(pid, tid, "children"));
  std::vector<pid_t> found;
  for (pid_t child; file >> child;) found.push_back(child);
  return found;
}

void name_thread(Image& image, pid_t tid) {
  Thread& thread = image.threads[static_cast<std::uint32_t>(tid)];
  std::ifstream file(of_task(static_cast<pid_t>(image.pid), tid, "comm"));
  std::string name;
  std::getline(file, name);
  name.resize(sizeof thread.name);
  if (std::equal(name.begin(), name.end(), thread.name)) return;
  name.copy(thread.name, sizeof thread.name);
  if (image.last_tid == static_cast<std::uint32_t>(tid)) image.last_tid = 0;  // written again
}

}  // namespace warpline::sampler
