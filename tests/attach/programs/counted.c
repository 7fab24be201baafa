// What tests load into other programs: a function that counts its calls.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int calls;

// Uses memory and threads' own state like any other code would; the argument is "ok".
int32_t counted(const char *argument) {
  char *copy = strdup(argument);
  const int is_right = copy != NULL && strcmp(copy, "ok") == 0;
  free(copy);
  errno = ERANGE;
  return is_right ? atomic_fetch_add(&calls, 1) + 1 : -1;
}

// Waits until the file that the argument names has gone.
int32_t waiting(const char *argument) {
  while (access(argument, F_OK) == 0) usleep(1000);
  return 7;
}

// How many of the signals 1 to 31 are blocked in the calling thread, without SIGKILL and SIGSTOP.
int32_t blocked_signals(const char *argument) {
  (void)argument;
  sigset_t set;
  sigprocmask(SIG_SETMASK, NULL, &set);
  int32_t count = 0;
  for (int number = 1; number < 32; ++number) count += sigismember(&set, number) == 1;
  return count;
}
