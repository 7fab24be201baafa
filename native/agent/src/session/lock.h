// Locks a mutex for a scope.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <ctime>

#include "session/clock.h"

namespace warpline::agent {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// Locks it unless that takes long: who holds it may wait for this thread. Returns whether it is locked.
inline bool lock_in_time(pthread_mutex_t& mutex, std::int64_t patience_ns) noexcept {
  const std::int64_t until = read_clock_ns(CLOCK_REALTIME) + patience_ns;
  const timespec time{static_cast<time_t>(until / 1'000'000'000),
                      static_cast<long>(until % 1'000'000'000)};
  return pthread_mutex_timedlock(&mutex, &time) == 0;
}

// The same for a scope.
class TimedLock {
 public:
  TimedLock(pthread_mutex_t& mutex, std::int64_t patience_ns) noexcept
      : mutex_(mutex), is_held_(lock_in_time(mutex, patience_ns)) {}
  ~TimedLock() {
    if (is_held_) pthread_mutex_unlock(&mutex_);
  }
  TimedLock(const TimedLock&) = delete;
  TimedLock& operator=(const TimedLock&) = delete;

  explicit operator bool() const noexcept { return is_held_; }

 private:
  pthread_mutex_t& mutex_;
  bool is_held_;
};

}  // namespace warpline::agent
