// Threads of the agent's own.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace warpline::agent {

// Starts a thread that gets none of the program's signals; returns whether there is one. Faults of its own are
// not blocked: the kernel would end the process without the handlers that tell where it was.
inline bool start_own_thread(pthread_t& thread, void* (*run)(void*), void* argument) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread, nullptr, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

}  // namespace warpline::agent
