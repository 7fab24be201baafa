// The lock of a GPU's clocks, where the user asks for it: CUPTI 13.4 and later.
//
// CUPTI locks the clocks of one GPU per process, for every program that uses it, and leaves them locked if
// the process ends without unlocking. So the lock is given back at every end that is seen: when all that
// was asked for is counted, when the context ends, at a detach and at exit.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "counters/abi.h"
#include "cupti/library.h"
#include "session/config.h"

namespace warpline::agent {

// Any thread.
class ClockLock {
 public:
  ClockLock(const cupti::Functions& base, const cupti::CounterFunctions& functions, Clocks clocks)
      : base_(base), functions_(functions), clocks_(clocks) {}
  ClockLock(const ClockLock&) = delete;
  ClockLock& operator=(const ClockLock&) = delete;

  bool is_asked() const noexcept { return clocks_ != Clocks::kNone; }

  // Locks the clocks of a context's GPU, before its range profiler is enabled. Says so once if that cannot
  // be; the program goes on.
  void hold(void* context, std::uint32_t device) noexcept;

  // Whether the clocks of a GPU are locked, by this process or before it.
  bool are_fixed(std::uint32_t device) const noexcept;

  // Whether this process holds the lock, and through this context.
  bool is_held() const noexcept;
  bool is_held_by(const void* context) const noexcept;

  // Unlocks, if this process holds the lock. After the range profiler is disabled.
  void release() noexcept;

 private:
  bool try_to_lock(void* context, std::uint32_t device);

  struct Tried {
    std::uint32_t device;
    bool is_fixed;
  };

  cupti::Functions base_;
  cupti::CounterFunctions functions_;
  Clocks clocks_;
  mutable pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::vector<Tried> tried_;
  const void* context_ = nullptr;
  std::uint32_t device_ = 0;
  pid_t holder_ = 0;  // 0: it is not held. A fork has none of its parent's.
};

}  // namespace warpline::agent
