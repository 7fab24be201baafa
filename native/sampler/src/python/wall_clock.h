// Python's threads at regular times, whether they run or wait, and who has the GIL.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "images.h"
#include "python/remote.h"
#include "warpline_sampler.h"
#include "warpline_cuda.h"

namespace warpline::sampler {

// A file of /proc that is read again and again.
class ProcFile {
 public:
  explicit ProcFile(const std::string& path);
  ~ProcFile();
  ProcFile(const ProcFile&) = delete;
  ProcFile& operator=(const ProcFile&) = delete;

  // Its text now; empty if the thread is gone, or it may not be read.
  std::string_view read() noexcept;

 private:
  int file_;
  char text_[256];
};

// A thread, from one look to the next.
struct WatchedThread {
  struct Row {
    std::uint64_t time_ns = 0;  // 0: none yet
    std::uint8_t is_running = 0;
    std::uint8_t has_gil = 0;
    std::uint64_t chain = 0;

    bool goes_on_as(const Row& next) const noexcept {
      constexpr auto kNo = static_cast<std::uint8_t>(raw::Known::kNo);
      return time_ns != 0 && is_running == kNo && next.is_running == kNo &&
             has_gil == next.has_gil && chain == next.chain;
    }
  };

  WatchedThread(pid_t pid, pid_t tid);

  ProcFile call;   // the system call that it is blocked in
  ProcFile turns;  // how long it has run
  std::string last_call;
  std::string last_turns;
  Row row;
  std::uint8_t gil = 0;  // what it has been doing with it since
  std::uint64_t gil_since_ns = 0;
  std::uint64_t seen_ns = 0;
};

class WallClock {
 public:
  struct Wanted {
    std::uint64_t period_ns = 0;
    bool has_samples = false;
    bool has_gil = false;
  };

  // Where images are found, unless perf events tell them: the processes and their descendants.
  struct Roots {
    std::vector<pid_t> pids;
    bool will_exec = false;  // the first is to execute the program
  };

  WallClock(Images& images, std::string folder, const Wanted& wanted, Roots roots);

  // Whether there are looks at all.
  bool is_wanted() const noexcept { return wanted_.has_samples || wanted_.has_gil; }
  // When the next look is due.
  std::uint64_t due_ns() const noexcept { return due_ns_; }
  // Looks at all threads. What it takes of a core is limited: it then looks less often.
  void tick(std::uint64_t now_ns, bool is_recording);
  // Writes what is known up to now.
  void finish(std::uint64_t now_ns);
  // An image has ended, or another thread of this program is about to end it.
  void forget(Image& image, std::uint64_t now_ns);

  RemotePythons& pythons() noexcept { return pythons_; }
  // Writes the chain of a stack that was just read, unless the image's log has it; returns its number.
  std::uint64_t write_chain(Image& image, RemotePython& python, RemotePythonStack& stack);
  // The interpreter of an image; null without one. Looks for one now and then.
  RemotePython* python_of(Image& image, std::uint64_t now_ns);

  // Adds what was done.
  void count(wl_sampler_counts& counts) const noexcept;

 private:
  struct Process {
    std::uint64_t incarnation = 0;
    std::uint64_t look_again_ns = 0;
    std::uint64_t pause_ns = 0;
    std::string identity;  // of the image, if it was found here
    bool has_told = false;
    std::unordered_map<pid_t, WatchedThread> threads;
    std::unordered_map<std::uint64_t, bool> code;  // numbers that the log has
  };

  Process& process_of(Image& image);
  void look_at(Image& image, std::uint64_t now_ns);
  void look_at(Image& image, Process& process, RemotePython& python, const RemoteThread& thread,
               pid_t gil_holder, std::uint64_t now_ns);
  void add(Image& image, pid_t tid, WatchedThread& watched, const WatchedThread::Row& next);
  void end_row(Image& image, pid_t tid, WatchedThread& watched, std::uint64_t now_ns);
  void set_gil(Image& image, pid_t tid, WatchedThread& watched, std::uint8_t state,
               std::uint64_t now_ns);
  void end_thread(Image& image, pid_t tid, WatchedThread& watched, std::uint64_t now_ns);
  void pause(std::uint64_t now_ns);
  void write_code(Image& image, RemotePython& python, std::uint64_t number, std::uint64_t address);

  void find_images(std::uint64_t now_ns);
  void add_image(pid_t pid, pid_t parent, std::uint64_t now_ns, std::vector<pid_t>& alive);

  Images& images_;
  std::string folder_;
  Wanted wanted_;
  Roots roots_;
  std::string waiting_identity_;  // of the first root, before it executes the program
  RemotePythons pythons_;
  std::unordered_map<pid_t, Process> processes_;
  RemotePythonStack stack_;
  std::vector<char> code_room_;
  std::uint64_t due_ns_ = 0;
  std::uint64_t find_ns_ = 0;
  std::uint64_t cost_ns_ = 0;  // of a tick, lately
  std::uint64_t random_ = 0x9e3779b97f4a7c15u;
  std::uint64_t ticks_ = 0;
  RemoteCounts counts_;  // of processes that have ended
  bool is_paused_ = false;
};

}  // namespace warpline::sampler
