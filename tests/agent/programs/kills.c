// Records until it is killed. Keeps a ledger of completed calls in a mapped file, its argument:
// `done` is stored once a call has returned.
//
// Every thread runs the same sequence of operations, defined by next_operation(); test_kills.py has
// it too. Operation N of the thread with slot S names what it opens or marks "S N". After kMost
// operations the main thread waits to be killed: on a busy machine the kill may come late.
#define _GNU_SOURCE
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kSlots = 64, kDepth = 8, kOfWorker = 60, kWorkers = 3, kMost = 20000 };
enum { kPush, kPop, kMark, kStart, kStop };

typedef struct {
  volatile uint64_t operation;
  volatile uint64_t before_ns;  // when the range was opened: not before, and not after
  volatile uint64_t after_ns;
} Opened;

typedef struct {
  volatile uint64_t done;       // operations that have returned
  volatile uint64_t joined_ns;  // the thread had ended by then; 0: not known
  volatile uint64_t last_ns;    // when the last operation had returned
  Opened started;
  Opened pushed[kDepth];
} Slot;

static Slot* g_slots;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

typedef struct {
  uint32_t state;
  int depth;
  int is_started;
} Sequence;

static int next_operation(Sequence* at) {
  at->state = (at->state * 1103515245u + 12345u) & 0x7fffffffu;
  const uint32_t chance = (at->state >> 16) % 8;
  if (at->depth == 0 || (chance < 3 && at->depth < kDepth - 1)) {
    ++at->depth;
    return kPush;
  }
  if (chance < 6) {
    --at->depth;
    return kPop;
  }
  if (chance == 6) return kMark;
  at->is_started = !at->is_started;
  return at->is_started ? kStart : kStop;
}

static void run(int number, int count) {
  Slot* slot = &g_slots[number];
  Sequence at = {1, 0, 0};
  nvtxRangeId_t range = 0;
  for (int place = 0; place < count; ++place) {
    char name[32];
    snprintf(name, sizeof name, "%d %d", number, place);
    const int operation = next_operation(&at);
    const uint64_t before = now_ns();
    if (operation == kPush) nvtxRangePushA(name);
    if (operation == kPop) nvtxRangePop();
    if (operation == kMark) nvtxMarkA(name);
    if (operation == kStart) range = nvtxRangeStartA(name);
    if (operation == kStop) nvtxRangeEnd(range);
    const uint64_t after = now_ns();
    if (operation == kPush || operation == kStart) {
      Opened* opened = operation == kPush ? &slot->pushed[at.depth - 1] : &slot->started;
      opened->operation = (uint64_t)place;
      opened->before_ns = before;
      opened->after_ns = after;
    }
    slot->last_ns = after;
    slot->done = (uint64_t)place + 1;
  }
}

static void* work(void* number) {
  run((int)(intptr_t)number, kOfWorker);
  return NULL;
}

// Starts short threads, joins them and starts others, as long as there are slots.
static void* manage(void* unused) {
  (void)unused;
  for (int first = 1; first + kWorkers <= kSlots; first += kWorkers) {
    pthread_t threads[kWorkers];
    for (int place = 0; place < kWorkers; ++place) {
      pthread_create(&threads[place], NULL, work, (void*)(intptr_t)(first + place));
    }
    for (int place = 0; place < kWorkers; ++place) {
      pthread_join(threads[place], NULL);
      g_slots[first + place].joined_ns = now_ns();
    }
  }
  return NULL;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const int file = open(arguments[1], O_RDWR);
  const size_t bytes = sizeof(Slot) * kSlots;
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return 2;
  void* room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (room == MAP_FAILED) return 2;
  g_slots = room;
  pthread_t manager;
  if (pthread_create(&manager, NULL, manage, NULL) != 0) return 2;
  run(0, kMost);
  for (;;) pause();
}
