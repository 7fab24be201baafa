// A training loop: steps as NVTX ranges, in the way that its arguments name.
//
//     steps WAY STEPS [MICROSECONDS]
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long pause_us;

static void work(void) {
  if (pause_us == 0) return;
  struct timespec span = {pause_us / 1000000, pause_us % 1000000 * 1000};
  nanosleep(&span, NULL);
}

static void push_registered(nvtxDomainHandle_t domain, const char* text) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, text);
  nvtxDomainRangePushEx(domain, &attributes);
}

static void loop(const char* format, int steps) {
  for (int i = 0; i < steps; ++i) {
    char name[64];
    snprintf(name, sizeof name, format, i);
    nvtxRangePushA(name);
    nvtxRangePushA("forward");
    nvtxRangePushA("step");  // the optimizer's: within a step, it begins none
    work();
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePop();
    nvtxMarkA("between");
  }
}

static void in_domain(int steps) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("train");
  for (int i = 0; i < steps; ++i) {
    char name[64];
    snprintf(name, sizeof name, "it_%d", i);
    push_registered(domain, name);
    work();
    nvtxDomainRangePop(domain);
  }
}

static void epochs(int steps) {
  for (int i = 0; i < steps; ++i) {
    if (i % 10 == 5) nvtxRangePushA("epoch");  // some steps lie deeper than others
    char name[64];
    snprintf(name, sizeof name, "train_step %d", i);
    nvtxRangeId_t id = 0;
    if (i % 2) id = nvtxRangeStartA(name); else nvtxRangePushA(name);
    work();
    if (i % 2) nvtxRangeEnd(id); else nvtxRangePop();
    if (i % 10 == 9) nvtxRangePop();
  }
}

static void* other_thread(void* stop) {
  while (!__atomic_load_n((int*)stop, __ATOMIC_RELAXED)) {
    nvtxRangePushA("step_999");  // another thread's steps are not counted
    usleep(50);
    nvtxRangePop();
  }
  return NULL;
}

static void threads(int steps) {
  static int stop;
  pthread_t thread;
  nvtxRangePushA("step_0");
  nvtxRangePop();
  pthread_create(&thread, NULL, other_thread, &stop);
  for (int i = 1; i < steps; ++i) {
    char name[64];
    snprintf(name, sizeof name, "step_%d", i);
    nvtxRangePushA(name);
    usleep(100);
    nvtxRangePop();
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
}

static void forks(int steps) {
  loop("step_%d", steps);
  fflush(stdout);
  for (int i = 0; i < 2; ++i) {
    if (fork() == 0) {
      loop("step_%d", steps);
      exit(0);
    }
  }
  while (wait(NULL) > 0) {
  }
}

int main(int count, char** words) {
  const int steps = count > 2 ? atoi(words[2]) : 1000;
  pause_us = count > 3 ? atol(words[3]) : 0;
  const char* way = words[1];
  if (strcmp(way, "loop") == 0) loop("step_%d", steps);
  if (strcmp(way, "slashed") == 0) loop("Iteration %d/1000", steps);
  if (strcmp(way, "unusual") == 0) loop("it_%d", steps);
  if (strcmp(way, "domain") == 0) in_domain(steps);
  if (strcmp(way, "epochs") == 0) epochs(steps);
  if (strcmp(way, "threads") == 0) threads(steps);
  if (strcmp(way, "forks") == 0) forks(steps);
  return 0;
}
