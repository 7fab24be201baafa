// page_faults BUDGET_MS fresh|reused|held FILE
//
// Uses BUDGET_MS of CPU time for touching memory that is fresh, then as much for computing. `reused`
// touches the same memory again and again. `held` also touches a page that another thread provides
// only after 60 ms, three times. Writes to FILE the CPU time of touching, that of all, and the time that
// the page was waited for, in ns.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kBytes = 16 << 20, kPage = 4096, kHeldMs = 60, kHeld = 3 };

static volatile unsigned long sink;

static long now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

static char *memory(void) {
  char *bytes = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) exit(4);
  madvise(bytes, kBytes, MADV_NOHUGEPAGE);
  return bytes;
}

__attribute__((noinline)) void touch(char *bytes) {
  for (long at = 0; at < kBytes; at += kPage) bytes[at] = 1;
}

__attribute__((noinline)) void compute(void) {
  unsigned long x = 1;
  for (long i = 0; i < 1000000; ++i) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
  sink += x;
}

// Returns the CPU time of touching alone.
static long touch_for(long budget_ns, int is_fresh) {
  long used_ns = 0;
  char *bytes = memory();
  touch(bytes);
  while (used_ns < budget_ns) {
    if (is_fresh) {
      munmap(bytes, kBytes);
      bytes = memory();
    }
    const long begun = now_ns(CLOCK_THREAD_CPUTIME_ID);
    touch(bytes);
    used_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
  }
  munmap(bytes, kBytes);
  return used_ns;
}

static void *provide(void *file) {
  for (int i = 0; i < kHeld; ++i) {
    struct uffd_msg message;
    if (read(*(int *)file, &message, sizeof message) != sizeof message) exit(5);
    usleep(kHeldMs * 1000);
    struct uffdio_zeropage page = {
        .range = {.start = message.arg.pagefault.address & -(unsigned long)kPage, .len = kPage}};
    if (ioctl(*(int *)file, UFFDIO_ZEROPAGE, &page) != 0) exit(6);
  }
  return NULL;
}

__attribute__((noinline)) void touch_held(char *bytes) {
  for (long at = 0; at < kHeld * kPage; at += kPage) bytes[at] = 1;
}

// Returns the time in which touches waited; 0 where the system forbids it.
static long hold(void) {
  int file = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  struct uffdio_api api = {.api = UFFD_API};
  if (file < 0 || ioctl(file, UFFDIO_API, &api) != 0) return 0;
  char *bytes = memory();
  struct uffdio_register all = {.range = {.start = (unsigned long)bytes, .len = kBytes},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (ioctl(file, UFFDIO_REGISTER, &all) != 0) return 0;
  pthread_t provider;
  pthread_create(&provider, NULL, provide, &file);
  const long begun = now_ns(CLOCK_MONOTONIC);
  touch_held(bytes);
  const long held = now_ns(CLOCK_MONOTONIC) - begun;
  pthread_join(provider, NULL);
  return held;
}

int main(int count, char **words) {
  const long budget_ns = count == 4 ? atol(words[1]) * 1000000 : 0;
  if (budget_ns <= 0) return 2;
  const long touched_ns = touch_for(budget_ns, strcmp(words[2], "reused") != 0);
  const long held_ns = strcmp(words[2], "held") == 0 ? hold() : 0;
  const long until = now_ns(CLOCK_THREAD_CPUTIME_ID) + budget_ns;
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until) compute();
  FILE *file = fopen(words[3], "w");
  if (file == NULL) return 7;
  fprintf(file, "%ld %ld %ld\n", touched_ns, now_ns(CLOCK_THREAD_CPUTIME_ID), held_ns);
  fclose(file);
  puts("worked");
  return 3;
}
