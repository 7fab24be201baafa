// Threads of the agent's own.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace warpline::agent {

// Starts a thread that gets none of the program's signals; returns whether there is one. Faults of its own are
// not blocked: the kernel would end the process without the program's handlers, which say where it was. What
// others send to the process, such as SIGABRT, is blocked: a program may wait for it in a thread of its own.
inline bool start_own_thread(pthread_t& thread, void* (*run)(void*), void* argument) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread, nullptr, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

}  // namespace warpline::agent
