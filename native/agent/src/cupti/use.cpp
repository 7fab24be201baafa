#include "cupti/use.h"

#include <pthread.h>

#include "session/lock.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kUsePatienceNs = 2'000'000'000;
constexpr std::int64_t kForkPatienceNs = 500'000'000;

pthread_mutex_t g_use_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
thread_local constinit bool t_fork_holds_lock = false;

void before_fork() { t_fork_holds_lock = lock_in_time(g_use_lock, kForkPatienceNs); }

void after_fork() {
  if (t_fork_holds_lock) pthread_mutex_unlock(&g_use_lock);
  t_fork_holds_lock = false;
}

// The child does not trace, but must not meet its parent's lock when it exits.
void begin_fork() {
  t_fork_holds_lock = false;
  g_use_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

bool hold() noexcept {
  static const bool is_told_of_forks = pthread_atfork(before_fork, after_fork, begin_fork) == 0;
  static_cast<void>(is_told_of_forks);
  return lock_in_time(g_use_lock, kUsePatienceNs);
}

}  // namespace

CuptiUse::CuptiUse() noexcept : is_held_(hold()) {}

CuptiUse::~CuptiUse() {
  if (is_held_) pthread_mutex_unlock(&g_use_lock);
}

}  // namespace warpline::agent
