// The agent's threads take no signal that is sent to the process, and do not block faults of their own.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>

#include "session/own_thread.h"

namespace {

int g_ready[2];  // pipes
int g_over[2];
sigset_t g_blocked;

void* wait_in_thread(void*) {
  pthread_sigmask(SIG_SETMASK, nullptr, &g_blocked);
  char byte = 0;
  if (write(g_ready[1], &byte, 1) != 1 || read(g_over[0], &byte, 1) != 1) std::perror("pipe");
  return nullptr;
}

int failed(const char* what, int number) {
  std::printf("%s: signal %d\n", what, number);
  return 1;
}

}  // namespace

int main() {
  // A program that waits for all signals in one place, as many do.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  pthread_t thread;
  char byte = 0;
  if (pipe(g_ready) != 0 || pipe(g_over) != 0) return 2;
  if (!warpline::agent::start_own_thread(thread, wait_in_thread, nullptr)) return 2;
  if (read(g_ready[0], &byte, 1) != 1) return 2;

  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    if (sigismember(&g_blocked, fault) != 0) return failed("a fault is blocked", fault);
  }
  for (const int sent : {SIGABRT, SIGTRAP, SIGSYS, SIGTERM, SIGUSR1, SIGPROF, SIGCHLD}) {
    if (sigismember(&g_blocked, sent) != 1) return failed("not blocked", sent);
    kill(getpid(), sent);  // if the thread took it, this would be the end
    const timespec a_while{30, 0};
    if (sigtimedwait(&all, nullptr, &a_while) != sent) return failed("not received", sent);
  }
  if (write(g_over[1], &byte, 1) != 1) return 2;
  pthread_join(thread, nullptr);
  return 0;
}
