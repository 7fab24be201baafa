// Threads with ranges whose names are numbers, until its input ends; prints how many each had.
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { kThreads = 4 };
static atomic_int is_over;

static void *run(void *argument) {
  const intptr_t thread = (intptr_t)argument;
  intptr_t count = 0;
  char name[64];
  const struct timespec pause = {0, 100000};
  for (; !is_over; ++count) {
    snprintf(name, sizeof name, "t%ld-%ld", (long)thread, (long)count);
    nvtxRangePushA(name);
    nvtxRangePushA("inner");
    nvtxRangePop();
    name[0] = 's';
    const nvtxRangeId_t id = nvtxRangeStartA(name);
    nvtxRangeEnd(id);
    nvtxRangePop();
    nanosleep(&pause, NULL);
  }
  return (void *)count;
}

int main(void) {
  pthread_t threads[kThreads];
  nvtxMarkA("looks for a tool");
  for (intptr_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, run, (void *)i);
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  is_over = 1;
  for (int i = 0; i < kThreads; ++i) {
    void *count;
    pthread_join(threads[i], &count);
    printf("%ld\n", (long)(intptr_t)count);
  }
  return 0;
}
