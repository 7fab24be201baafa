/* What NCCL does with a profiler plug-in, in the order and with the layouts of its public source: it opens the
   library that NCCL_PROFILER_PLUGIN names, takes the newest version of the interface that both know, and tells of
   calls, groups and operations. Words: the newest version that this NCCL knows, what to do, how often. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUP (1 << 0)
#define COLL (1 << 1)
#define P2P (1 << 2)
#define PROXY_OP (1 << 3)
#define GROUP_API (1 << 8)
#define COLL_API (1 << 9)
#define P2P_API (1 << 10)
#define CE_COLL (1 << 12)

#define FAIL(...)                 \
  do {                            \
    fprintf(stderr, __VA_ARGS__); \
    fputc('\n', stderr);          \
    _exit(9);                     \
  } while (0)

/* ---- layouts */

typedef struct {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  size_t trafficBytes;
  uint8_t nMaxChannels, nWarps;
  const char *algo, *proto;
} coll_2;
typedef struct {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nMaxChannels, nWarps;
  const char *algo, *proto;
} coll_3;
typedef struct {
  const char* name;
  uint64_t commHash;
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
} p2p_2;
typedef struct {
  uint64_t seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nChannels, nWarps;
  const char *algo, *proto;
  void* parentGroup; /* from 5 on */
} coll_4;
typedef struct {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void* parentGroup; /* from 5 on */
} p2p_4;
typedef struct {
  uint64_t seqNumber;
  const char* func;
  void const* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char *datatype, *syncStrategy;
  bool intraBatchSync;
  uint32_t batchSize, numBatches, ceSeqNum;
  void* stream;
} ce_6;
typedef struct {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graphCaptured;
} coll_api_5;
typedef struct {
  bool graphCaptured;
  int groupDepth;
} group_api_5;

typedef struct {
  uint8_t type;
  void* parentObj;
  int rank;
  union {
    coll_2 two;
    coll_3 three;
    coll_4 four;
    p2p_2 p2p_two;
    p2p_4 p2p_four;
  };
} event_2;
typedef struct {
  uint64_t type;
  void* parentObj;
  int rank;
  union {
    coll_4 coll;
    p2p_4 p2p;
    ce_6 ce;
    coll_api_5 coll_api;
    group_api_5 group_api;
  };
} event_5;

typedef void (*logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
typedef struct {
  const char* name;
  void* init;
  int (*startEvent)(void* context, void** handle, void* event);
  int (*stopEvent)(void* handle);
  int (*recordEventState)(void* handle, int state, void* args);
  int (*finalize)(void* context);
} plugin;
typedef int (*init_2)(void** context, int* mask);
typedef int (*init_4)(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                      logger log);
typedef int (*init_5)(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                      logger log);

/* ---- NCCL */

static plugin* g_plugin;
static int g_version;
static int g_mask;

typedef struct {
  void* context;
  uint64_t hash;
  const char* name;
  int ranks, rank;
  uint64_t sequences;
} comm;

static void log_line(int level, unsigned long flags, const char* file, int line, const char* format, ...) {
  (void)level;
  (void)flags;
  (void)file;
  (void)line;
  FAIL("the plug-in prints: %s", format);
}

static void load(int newest) {
  const char* path = getenv("NCCL_PROFILER_PLUGIN");
  if (path == NULL || *path == 0) return;
  char name[256]; /* as long as NCCL keeps it */
  snprintf(name, 255, "%s", path);
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) FAIL("%s", dlerror());
  for (g_version = newest; g_version > 0 && g_plugin == NULL; --g_version) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", g_version);
    g_plugin = dlsym(library, symbol);
  }
  ++g_version;
  if (g_plugin == NULL) dlclose(library);
}

static void begin(comm* c) {
  if (g_plugin == NULL) return;
  int error;
  if (g_version < 4) {
    error = ((init_2)g_plugin->init)(&c->context, &g_mask);
  } else if (g_version == 4) {
    error = ((init_4)g_plugin->init)(&c->context, &g_mask, c->name, c->hash, 2, c->ranks, c->rank, log_line);
  } else {
    error = ((init_5)g_plugin->init)(&c->context, c->hash, &g_mask, c->name, 2, c->ranks, c->rank, log_line);
  }
  if (error != 0) FAIL("init: %d", error);
  if (g_version < 6 && (g_mask & CE_COLL) != 0) FAIL("mask %x", (unsigned)g_mask);
}

static void* start(comm* c, void* event) {
  void* handle = (void*)0x10; /* not a handle: it has to be set */
  const int error = g_plugin->startEvent(c->context, &handle, event);
  if (error != 0) FAIL("startEvent: %d", error);
  if (handle == (void*)0x10) FAIL("startEvent sets no handle");
  return handle;
}

static void stop(void* handle) {
  if (handle != NULL && g_plugin->stopEvent(handle) != 0) FAIL("stopEvent");
}

/* What is unused has whatever was there. */
#define EVENT(type_name, event, bits, parent) \
  type_name event;                            \
  memset(&event, 0xa5, sizeof event);         \
  event.type = bits;                          \
  event.parentObj = parent;                   \
  event.rank = c->rank

static void* start_group(comm* c) {
  if (g_version >= 5) {
    EVENT(event_5, event, GROUP, NULL);
    return start(c, &event);
  }
  EVENT(event_2, event, GROUP, NULL);
  return start(c, &event);
}

typedef struct {
  const char *function, *dtype;
  size_t count;
  int root;
  void* call; /* the handle of its call */
} task;

/* In the program's call: from version 5 on. */
static void call(comm* c, task* t, bool is_p2p) {
  t->call = NULL;
  if (g_plugin == NULL || g_version < 5 || g_mask == 0) return;
  EVENT(event_5, group, GROUP_API, NULL);
  group.group_api = (group_api_5){false, 1};
  void* group_handle = start(c, &group);
  EVENT(event_5, event, is_p2p ? P2P_API : COLL_API, group_handle);
  event.coll_api = (coll_api_5){t->function, t->count, t->dtype, t->root, NULL, false};
  t->call = start(c, &event);
  stop(t->call);
  if (group_handle != NULL && g_plugin->recordEventState(group_handle, 23, NULL) != 0) FAIL("state");
  stop(group_handle);
}

static void* start_collective(comm* c, const task* t, void* group) {
  const char *algorithm = c->rank % 2 ? "TREE" : "RING", *protocol = "LL128";
  const uint64_t sequence = c->sequences++;
  if (g_version >= 5) {
    EVENT(event_5, event, COLL, t->call);
    event.coll = (coll_4){sequence, t->function, NULL, NULL, t->count, t->root, t->dtype, 24, 16,
                          algorithm, protocol, group};
    return start(c, &event);
  }
  EVENT(event_2, event, COLL, group);
  if (g_version == 4) {
    coll_4 coll = {sequence, t->function, NULL, NULL, t->count, t->root, t->dtype, 24, 16, algorithm, protocol, NULL};
    memcpy(&event.four, &coll, offsetof(coll_4, parentGroup));
  } else if (g_version == 3) {
    event.three = (coll_3){c->name, c->hash, sequence, t->function, NULL, NULL, t->count, t->root, t->dtype,
                           24, 16, algorithm, protocol};
  } else {
    event.two = (coll_2){c->name, c->hash, sequence, t->function, NULL, NULL, t->count, t->root, t->dtype,
                         77, 24, 16, algorithm, protocol};
  }
  return start(c, &event);
}

static void* start_p2p(comm* c, const task* t, void* group) {
  if (g_version >= 5) {
    EVENT(event_5, event, P2P, t->call);
    event.p2p = (p2p_4){t->function, NULL, t->dtype, t->count, t->root, 4, group};
    return start(c, &event);
  }
  EVENT(event_2, event, P2P, group);
  if (g_version == 4) {
    p2p_4 p2p = {t->function, NULL, t->dtype, t->count, t->root, 4, NULL};
    memcpy(&event.p2p_four, &p2p, offsetof(p2p_4, parentGroup));
  } else {
    event.p2p_two = (p2p_2){c->name, c->hash, t->function, NULL, t->dtype, t->count, t->root};
  }
  return start(c, &event);
}

/* A kernel was launched with some operations. */
static void tell(comm* c, task* tasks, int count, bool is_p2p) {
  if (g_plugin == NULL || (g_mask & (is_p2p ? P2P : COLL)) == 0) return;
  void* group = start_group(c);
  void* handles[4];
  for (int i = 0; i < count; ++i) {
    handles[i] = is_p2p ? start_p2p(c, &tasks[i], group) : start_collective(c, &tasks[i], group);
  }
  for (int i = 0; i < count; ++i) stop(handles[i]);
  stop(group);
}

static void copy_collective(comm* c, task* t) {
  if (g_plugin == NULL || (g_mask & CE_COLL) == 0) return;
  EVENT(event_5, event, CE_COLL, t->call);
  event.ce = (ce_6){c->sequences++, t->function, NULL, NULL, t->count, t->root, t->dtype, "MC", false, 0, 0, 0, NULL};
  stop(start(c, &event));
}

static void work(comm* c, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    task alone = {"AllReduce", "ncclBfloat16", 1000 + (size_t)round, 0, NULL};
    call(c, &alone, false);
    tell(c, &alone, 1, false);
    task joined[2] = {{"Broadcast", "ncclInt8", 64, 1, NULL}, {"AllGather", "ncclFloat32", 16, 0, NULL}};
    for (int i = 0; i < 2; ++i) call(c, &joined[i], false);
    tell(c, joined, 2, false);
    task pair[2] = {{"Send", "ncclFloat8e4m3", 5, 1, NULL}, {"Recv", "ncclUint64", 3, 1, NULL}};
    for (int i = 0; i < 2; ++i) call(c, &pair[i], true);
    tell(c, pair, 2, true);
    task copied = {"AllGather", "ncclFloat16", 2, 0, NULL};
    call(c, &copied, false);
    copy_collective(c, &copied);
  }
}

static void end(comm* c) {
  if (g_plugin != NULL && c->context != NULL && g_plugin->finalize(c->context) != 0) FAIL("finalize");
}

static void* of_thread(void* data) {
  const int number = (int)(intptr_t)data;
  for (int i = 0; i < 10; ++i) {
    comm c = {NULL, 0x100 + (uint64_t)number, NULL, 4, number, 0};
    begin(&c);
    work(&c, 25);
    end(&c);
  }
  return NULL;
}

int main(int count, char** words) {
  if (count < 4) return 1;
  load(atoi(words[1]));
  const int rounds = atoi(words[3]);
  if (strcmp(words[2], "threads") == 0) {
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, of_thread, (void*)i);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  } else {
    comm c = {NULL, 0xfedcba9876543210u, "pipeline", 8, 3, 0};
    begin(&c);
    work(&c, rounds);
    if (strcmp(words[2], "fork") == 0) {
      const pid_t child = fork();
      if (child == 0) {
        work(&c, 1);
        return 0;
      }
      int status = 0;
      if (waitpid(child, &status, 0) != child || status != 0) FAIL("the child: %x", (unsigned)status);
      work(&c, 1);
    }
    end(&c);
  }
  printf("version %d\n", g_plugin == NULL ? 0 : g_version);
  return 0;
}
