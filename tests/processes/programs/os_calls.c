// Calls of the C library in places where a measured one could do harm. Prints what it saw.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMs = 1000 };

static int g_pipe[2];

static void say(const char* text, long number) {
  char line[128];
  const int bytes = snprintf(line, sizeof line, "%s %ld\n", text, number);
  if (write(1, line, (size_t)bytes) != bytes) _exit(9);
}

// ---- one of each kind, of known length

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

static void* hold_lock(void* ready) {
  pthread_mutex_lock(&g_lock);
  sem_post(ready);
  usleep(20 * kMs);
  pthread_mutex_unlock(&g_lock);
  return NULL;
}

static struct timespec in_ms(long ms) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_nsec += ms * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

static void kinds(void) {
  for (int i = 0; i < 5; ++i) usleep(2 * kMs);
  say("poll", poll(NULL, 0, 3));
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  struct timespec until = in_ms(4);
  say("sem", sem_timedwait(&semaphore, &until));
  say("errno", errno == ETIMEDOUT);
  pthread_t thread;
  pthread_create(&thread, NULL, hold_lock, &semaphore);
  while (sem_wait(&semaphore) != 0) {}
  say("lock", pthread_mutex_lock(&g_lock));
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  until = in_ms(5);
  say("cond", pthread_cond_timedwait(&condition, &g_lock, &until) == ETIMEDOUT);
  // Versions of these functions before 2.3.2 wait by the wall clock.
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_t by_monotonic;
  pthread_cond_init(&by_monotonic, &attributes);
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  end = begin;
  end.tv_sec += 1;
  end.tv_nsec = 0;
  say("cond", pthread_cond_timedwait(&by_monotonic, &g_lock, &end) == ETIMEDOUT);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  say("in time", begin.tv_sec >= end.tv_sec);
  pthread_mutex_unlock(&g_lock);
  say("join", pthread_join(thread, NULL));
  say("read", read(-1, &thread, 1));
  say("errno", errno == EBADF);
  const int file = open("/tmp", O_TMPFILE | O_RDWR, 0640);
  say("mode", file < 0 ? 0 : fcntl(file, F_GETFD));
  say("failed", open("/nowhere/at/all", O_RDONLY) == -1 && errno == ENOENT);
}

// ---- processes

static void forks(void) {
  const pid_t child = fork();
  if (child == 0) {
    usleep(10 * kMs);
    _exit(3);
  }
  int status = 0;
  say("waited", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
  const pid_t borrowed = vfork();
  if (borrowed == 0) {
    usleep(10 * kMs);  // has its parent's memory
    _exit(4);
  }
  say("waited", waitpid(borrowed, &status, 0) == borrowed && WEXITSTATUS(status) == 4);
  say("system", system("sleep 0.01; exit 5") >> 8);
  fflush(NULL);
  execl("/proc/self/exe", "os_calls", "short", NULL);
}

// ---- cancellation, jumps, handlers

static void cleaned(void* text) { say(text, 1); }

static void* sleep_long(void* unused) {
  pthread_cleanup_push(cleaned, "cleanup");
  sleep(1000);
  pthread_cleanup_pop(0);
  return unused;
}

static void* read_long(void* unused) {
  char byte;
  pthread_cleanup_push(cleaned, "cleanup");
  if (read(g_pipe[0], &byte, 1) != 1) unused = NULL;
  pthread_cleanup_pop(0);
  return unused;
}

static void cancel(void) {
  void* (*const threads[])(void*) = {sleep_long, read_long};
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    void* result = NULL;
    pthread_create(&thread, NULL, threads[i], NULL);
    usleep(10 * kMs);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    say("cancelled", result == PTHREAD_CANCELED);
  }
}

static sigjmp_buf g_back;
static void jump(int number) { siglongjmp(g_back, number); }

static void alarm_in_ms(int ms) {
  timer_t timer = 0;
  struct itimerspec time = {.it_value = {0, ms * 1000000L}};
  timer_create(CLOCK_MONOTONIC, NULL, &timer);
  timer_settime(timer, 0, &time, NULL);
}

static void jumps(void) {
  signal(SIGALRM, jump);
  for (volatile int i = 0; i < 3; ++i) {
    if (sigsetjmp(g_back, 1) == 0) {
      alarm_in_ms(5);
      pause();
    }
    usleep(2 * kMs);  // in no other call
  }
  say("jumped", 3);
}

static void nap(int number) {
  (void)number;
  errno = 0;
  usleep(3 * kMs);
  say("handler", errno);
}

static void handlers(void) {
  signal(SIGALRM, nap);
  for (int i = 0; i < 3; ++i) {
    alarm_in_ms(5);
    say("poll", poll(NULL, 0, 1000));
    say("errno", errno == EINTR);
  }
}

static void* short_work(void* unused) {
  usleep(2 * kMs);
  return unused;
}

static void threads(void) {
  for (int round = 0; round < 20; ++round) {
    pthread_t all[10];
    for (int i = 0; i < 10; ++i) pthread_create(&all[i], NULL, short_work, NULL);
    for (int i = 0; i < 10; ++i) pthread_join(all[i], NULL);
  }
  say("threads", 200);
}

static void nap_early(void) {
  const struct timespec time = {0, 1000000};
  nanosleep(&time, NULL);
}
__attribute__((constructor)) static void begin(void) { nap_early(); }
__attribute__((destructor)) static void end(void) { nap_early(); }

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "";
  if (pipe(g_pipe) != 0) return 1;
  if (strcmp(what, "kinds") == 0) kinds();
  if (strcmp(what, "forks") == 0) forks();
  if (strcmp(what, "cancel") == 0) cancel();
  if (strcmp(what, "jumps") == 0) jumps();
  if (strcmp(what, "handlers") == 0) handlers();
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "short") == 0) say("short", 1);
  return 7;
}
