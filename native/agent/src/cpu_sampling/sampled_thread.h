// A thread whose CPU time is sampled, and what its signal's handler leaves for the watcher.
//
// The handler runs at any place of the program: within malloc, within the loader, within the agent. So it
// takes no lock, allocates nothing, touches no thread-local variable and follows no pointer of the program:
// it copies registers, the stack and the frames of Python, the kernel doing so where memory may not be there.
// Frames are looked for in the copy, by the watcher.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stack/python_memory.h"
#include "stack/python_walk.h"
#include "stack/walk.h"

namespace warpline::agent {

// One sample.
struct Sample {
  static constexpr std::size_t kMostBytes = 64u << 10;  // 64 frames of most programs; copied in 3 us

  std::int64_t time_ns;
  std::uint64_t periods;  // of the timer that have passed since the sample before
  std::uint32_t cpu;
  CopiedStack stack;
  PythonStack python;
  char copy[kMostBytes];
};

class SampledThread {
 public:
  static constexpr std::size_t kSamples = 32;  // of 4 ms each, as most kernels tick

  // Maps memory for a thread and makes its timer, off; null if one of both fails.
  static SampledThread* make(pid_t tid, int signal_number, std::uint32_t hz, bool has_python) noexcept;

  // Gives back all of that, of a thread that has ended.
  void remove() noexcept;

  // A signal that is under way while it is turned off finds nothing to do.
  void turn(bool is_on) noexcept;
  bool is_on() const noexcept { return is_on_.load(std::memory_order_acquire); }

  // Called by the handler, in the thread.
  void take(const siginfo_t& info, const void* context) noexcept;

  // Calls use(sample) for each sample, the oldest first, and frees it.
  template <class Use>
  void take_up(const Use& use) noexcept {
    for (std::size_t i = oldest(); i != kSamples; i = oldest()) {
      use(samples_[i]);
      full_since_ns_[i].store(0, std::memory_order_release);
    }
  }

  pid_t tid() const noexcept { return tid_; }

  // CPU time of the thread in ns, -1 once it has ended.
  std::int64_t cpu_ns() const noexcept;

  // CPU time in ns that samples stand for, and samples for which there was no room.
  std::int64_t sampled_ns = 0;
  std::atomic<std::uint64_t> dropped{0};

  // How far up the stack is worth a copy: where the last walk came to its end. 0: not known.
  std::atomic<std::uint64_t> stack_end{0};

  SampledThread* next = nullptr;  // in a list of the watcher's
  bool is_seen = false;  // in the list of the process's threads, when that was last read

 private:
  std::size_t oldest() const noexcept;
  std::size_t copy_stack(Sample& sample) noexcept;

  std::atomic<bool> is_on_{false};
  bool has_python_ = false;
  pid_t tid_ = 0;
  long period_ns_ = 0;
  timer_t timer_ = nullptr;
  std::atomic<std::int64_t> full_since_ns_[kSamples] = {};  // 0: free
  Sample* samples_ = nullptr;  // untouched until they are needed
  alignas(CopiedMemory) char python_room_[sizeof(CopiedMemory)];
};

}  // namespace warpline::agent
