#include "running.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <unordered_set>

#include "blocked_place.h"
#include "clock.h"
#include "python/proc_images.h"

namespace warpline::sampler {
namespace {

// Threads that start while others are being opened are found by another look. All that start later are
// started by one that is watched, unless a program makes threads faster than they can be opened.
constexpr int kMostLists = 8;

struct RunningProcess {
  pid_t pid;
  pid_t parent;
  std::vector<pid_t> threads;
};

void add_running(pid_t pid, pid_t parent, std::unordered_set<pid_t>& seen,
                 std::vector<RunningProcess>& found) {
  if (!seen.insert(pid).second) return;
  std::vector<pid_t> threads = threads_of(pid);
  if (threads.empty()) return;  // it has ended
  for (const pid_t tid : threads) {
    for (const pid_t child : children_of(pid, tid)) add_running(child, pid, seen, found);
  }
  found.push_back({pid, parent, std::move(threads)});
}

std::vector<RunningProcess> list_running(const std::vector<pid_t>& roots) {
  std::unordered_set<pid_t> seen;
  std::vector<RunningProcess> found;
  for (const pid_t root : roots) add_running(root, parent_of(root), seen, found);
  return found;
}

// A line of /proc/PID/maps: its place, and the part of a file that is there.
struct MappedPart {
  std::uint64_t begin, end, file_offset, file_number;
  unsigned major, minor;
  bool is_code;
  std::string path;
};

bool read_part(const std::string& line, MappedPart& part) {
  char rights[5] = {};
  int path_at = 0;
  const int count = std::sscanf(
      line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &part.begin,
      &part.end, rights, &part.file_offset, &part.major, &part.minor, &part.file_number, &path_at);
  if (count < 7) return false;
  part.is_code = rights[2] == 'x';
  part.path = line.substr(std::min(line.size(), static_cast<std::size_t>(path_at)));
  constexpr std::string_view kDeleted = " (deleted)";
  if (part.path.ends_with(kDeleted)) part.path.resize(part.path.size() - kDeleted.size());
  if (part.path.empty()) part.path = "//anon";  // as the kernel's records name it
  return true;
}

void read_code(Image& image, Images& images) {
  std::ifstream maps("/proc/" + std::to_string(image.pid) + "/maps");
  MappedPart part;
  for (std::string line; std::getline(maps, line);) {
    if (!read_part(line, part) || !part.is_code) continue;
    images.map(image, {.begin = part.begin, .end = part.end, .path = part.path}, part.file_offset,
               makedev(part.major, part.minor), part.file_number);
  }
}

}  // namespace

int watch_running(const std::vector<pid_t>& roots, PerfEvents& events) {
  std::unordered_set<pid_t> known;
  int first_error = ESRCH;
  for (int look = 0; look < kMostLists; ++look) {
    bool is_any_new = false;
    for (const RunningProcess& process : list_running(roots)) {
      for (const pid_t tid : process.threads) {
        if (!known.insert(tid).second) continue;
        is_any_new = true;
        const int error = events.watch(tid, look > 0);
        // It has ended; or it is a process of another user, as of sudo, which exec would have ended, too.
        const bool is_left_out = error == ESRCH || error == EACCES || error == EPERM;
        if (error != 0 && !is_left_out) return error;
        if (first_error == ESRCH || error == 0) first_error = error;
      }
    }
    if (!is_any_new) break;
  }
  return first_error;
}

void read_running(const std::vector<pid_t>& roots, Images& images) {
  for (const RunningProcess& process : list_running(roots)) {
    const std::uint64_t began_ns = start_of(process.pid);
    if (began_ns == 0) continue;
    Image& image = images.of(static_cast<std::uint32_t>(process.pid), began_ns);
    image.ppid = static_cast<std::uint32_t>(process.parent);
    image.executable = executable_of(process.pid);
    for (const pid_t tid : process.threads) name_thread(image, tid);
    read_code(image, images);
    image.read_ns = now_ns();
  }
}

void note_blocked(Images& images, std::uint64_t since_ns) {
  for (auto& [pid, image] : images.all()) {
    for (auto& [tid, thread] : image.threads) {
      if (thread.is_off) continue;
      std::uint32_t cpu = 0;
      if (!sleeps_in_kernel(pid, tid, &cpu)) continue;
      thread.is_off = thread.is_blocked = thread.is_assumed = true;
      thread.is_in_fault = false;
      thread.off_ns = since_ns;
      thread.cpu = cpu;
      thread.looked_at_ns = 0;
    }
  }
}

}  // namespace warpline::sampler
