// Threads of the agent's own.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace warpline::agent {

// Starts a thread that gets none of the program's signals; returns whether there is one.
inline bool start_own_thread(pthread_t& thread, void* (*run)(void*), void* argument) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread, nullptr, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

}  // namespace warpline::agent
