// Takes what the kernel's rings have, and writes the logs of a session.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "images.h"
#include "perf_events.h"
#include "python/sampled_stacks.h"
#include "python/wall_clock.h"
#include "unwinding.h"
#include "warpline_sampler.h"

namespace warpline::sampler {

class Sampler {
 public:
  // Returns 0, or a number of errno.
  int open(const wl_sampler_options& options);
  void run(int until);
  // Writes what is left.
  void close(wl_sampler_counts& counts);

 private:
  int open_events(const wl_sampler_options& options);
  // Whether Python's frames are read of samples, which must be done at once.
  bool reads_frames() const noexcept;
  void drain(std::uint64_t until_ns);
  void take(const perf_event_header& header, std::uint64_t time_ns);
  void on_sample(const perf_event_header& header);
  void on_switch(const perf_event_header& header);
  void on_exit(const perf_event_header& header, std::uint64_t time_ns);
  void on_lost(const perf_event_header& header);
  // Writes that a thread stopped, once it goes on, or has ended.
  void write_stop(Image& image, std::uint32_t tid, Thread& thread);
  // Takes in which threads are blocked when recording begins.
  void begin_recording(std::uint64_t now_ns);
  // Reads the stacks of threads that are blocked for long, while they are.
  void look_at_blocked(std::uint64_t now_ns);
  void look_at(Image& image, std::uint32_t tid, Thread& thread);
  void end_image(Image& image, std::uint64_t time_ns);
  // Writes the chain in `callers_` if the log has not got it; returns its number, 0: none.
  std::uint64_t write_chain(Image& image);
  // The interpreter of an image whose samples have Python stacks; null: none.
  RemotePython* python_of(Image& image);
  std::uint64_t find_python_chain(Image& image, RemotePython& python, std::uint32_t tid,
                                  std::uint64_t time_ns, StackMemory& memory);
  void write_module(Image& image, CodeMapping& mapping);
  void see_code(Image& image, std::uint64_t instruction);
  bool is_recording() const noexcept;
  void flush();

  std::string folder_;
  std::vector<pid_t> running_;  // what is sampled, if it ran already
  bool has_begun_ = false;      // to record
  bool has_frames_ = false;     // of samples, of which Python's are read
  bool by_frame_pointers_ = false;
  std::uint64_t period_ns_ = 0;
  bool has_switches_ = false;
  PerfEvents events_;
  Images images_;
  std::unique_ptr<WallClock> python_;  // null: nothing is wanted of it
  SampledStacks sampled_;
  RemotePythonStack python_stack_;
  std::int64_t python_room_ns_ = 0;  // of CPU time, for reading these
  Unwinder unwinder_;
  Callers callers_;
  std::vector<std::byte> outer_;
  const raw::ControlPage* control_ = nullptr;
  wl_sampler_counts counts_{};
  std::uint64_t flushed_ns_ = 0;

  struct Blocked {
    std::uint64_t off_ns;
    std::uint32_t pid;
    std::uint32_t tid;
  };
  std::deque<Blocked> blocked_;  // in the order in which they stopped
  double looks_ = 0;             // that may be taken now
  std::uint64_t looks_ns_ = 0;   // when that was last counted
  std::vector<std::byte> stack_;
};

}  // namespace warpline::sampler
