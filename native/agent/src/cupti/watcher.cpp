#include "cupti/watcher.h"

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "session/clock.h"
#include "session/lock.h"
#include "session/own_thread.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kTickNs = 20'000'000;  // how soon the launcher's switch is noticed

}  // namespace

bool Watcher::start(void* (*run)(void*), void* argument) noexcept {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&wake_, &attributes);
  pthread_condattr_destroy(&attributes);
  ends_ = is_flush_wanted_ = false;
  const bool is_started = start_own_thread(thread_, run, argument);
  const Lock lock(lock_);
  runs_ = is_started;
  return is_started;
}

void Watcher::stop() noexcept {
  {
    const Lock lock(lock_);
    runs_ = false;
    ends_ = true;
    pthread_cond_signal(&wake_);
  }
  pthread_join(thread_, nullptr);
  pthread_cond_destroy(&wake_);
}

Woken Watcher::wait() noexcept {
  const std::int64_t until_ns = now_ns() + kTickNs;
  const timespec until{static_cast<time_t>(until_ns / 1'000'000'000),
                       static_cast<long>(until_ns % 1'000'000'000)};
  const Lock lock(lock_);
  while (!ends_ && !is_flush_wanted_) {
    if (pthread_cond_timedwait(&wake_, &lock_, &until) == ETIMEDOUT) break;
  }
  if (ends_) return Woken::kToEnd;
  const bool is_to_flush = is_flush_wanted_;
  is_flush_wanted_ = false;
  return is_to_flush ? Woken::kToFlush : Woken::kByTick;
}

void Watcher::want_flush() noexcept {
  if (pthread_mutex_trylock(&lock_) != 0) return;
  if (runs_) {
    is_flush_wanted_ = true;
    pthread_cond_signal(&wake_);
  }
  pthread_mutex_unlock(&lock_);
}

}  // namespace warpline::agent
