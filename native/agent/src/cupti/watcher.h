// The thread of the agent's own that looks after tracing: it wakes every few milliseconds, and earlier on request.
#pragma once

#include <pthread.h>

namespace warpline::agent {

enum class Woken { kByTick, kToFlush, kToEnd };

// Never destroyed: threads may ask until the very end of the process.
class Watcher {
 public:
  // Starts the thread; returns whether there is one. One thread at a time, as with `stop`, which waits for its end.
  bool start(void* (*run)(void*), void* argument) noexcept;
  void stop() noexcept;

  // Waits for a tick, or for what comes before it. The thread itself.
  Woken wait() noexcept;

  // Asks for a flush now. Any thread, which does not wait; nothing happens without the thread.
  void want_flush() noexcept;

 private:
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_{};
  bool runs_ = false;  // the condition is there
  bool ends_ = false;
  bool is_flush_wanted_ = false;
  pthread_t thread_{};
};

}  // namespace warpline::agent
