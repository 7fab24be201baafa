/* A CUDA driver without a GPU: checks what it is given, and adds up the time that work would take.
 *
 * FAKE_GPUS: number of GPUs (default 1). FAKE_GPU_BYTES: the largest allocation (default 1 GiB).
 * FAKE_CRASH: the function that crashes.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_READY = 600 };
enum { MOST = 4096 };

static struct { char* at; size_t size; int device; } blocks[MOST];
static struct { void* at; size_t size; } pinned[MOST];
static int current = -1, is_capturing, captured, was_initialized;
static int64_t now_ns, done_ns;  /* when the queued work ends, and what was waited for */
static int64_t events[MOST];
static int event_count;
static int graphs[MOST];
static int graph_count;
static char stream_of_ours, module_of_ours, kernel_of_ours, stamp_of_ours, contexts[16];
static int is_peer_enabled;

static int gpus(void) { const char* n = getenv("FAKE_GPUS"); return n ? atoi(n) : 1; }
static size_t limit(void) { const char* n = getenv("FAKE_GPU_BYTES"); return n ? (size_t)atoll(n) : (size_t)1 << 30; }
static size_t part(size_t size) { return size < 32768 ? size : 32768; }
static void enter(const char* name) {
  const char* crash = getenv("FAKE_CRASH");
  if (crash && strcmp(crash, name) == 0) raise(SIGSEGV);
}

void fake_work(int64_t ns) { now_ns += ns; }
int fake_is_stream(void* stream) { return stream == &stream_of_ours; }
/* Whether memory of the current GPU has this many bytes from an address. */
int fake_has(uint64_t address, size_t size, int device) {
  for (int i = 0; i < MOST; ++i)
    if (blocks[i].at && (char*)address >= blocks[i].at &&
        (char*)address + size <= blocks[i].at + blocks[i].size && blocks[i].device == device)
      return 1;
  return 0;
}

int cuInit(unsigned flags) {
  was_initialized = 1;
  return flags ? INVALID : gpus() ? 0 : NO_DEVICE;
}
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuDeviceGetCount(int* count) { *count = gpus(); return was_initialized ? 0 : 3; }
int cuDeviceGet(int* device, int index) { *device = index + 10; return index < gpus() ? 0 : INVALID; }
int cuDeviceGetName(char* name, int size, int device) {
  if (device < 10) return INVALID;
  snprintf(name, (size_t)size, "NVIDIA H100 80GB HBM3");
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = (unsigned char)(i + device - 10);
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int device) {
  if (device < 10) return INVALID;
  *value = which == 75 ? 9 : which == 76 ? 0 : which == 38 ? 1 << 20 : which == 16 ? 132 : -1;
  return *value < 0 ? INVALID : 0;
}
int cuDeviceTotalMem_v2(size_t* size, int device) { *size = limit(); return device < 10 ? INVALID : 0; }
int cuDeviceCanAccessPeer(int* can, int device, int other) {
  *can = 1;
  return device < 10 || other < 10 || device == other ? INVALID : 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = &contexts[device - 10]; return 0; }
int cuCtxSetCurrent(void* context) {
  current = (int)((char*)context - contexts);
  return current >= 0 && current < gpus() ? 0 : INVALID;
}
int cuCtxEnablePeerAccess(void* context, unsigned flags) {
  if (flags || context == &contexts[current]) return INVALID;
  if (is_peer_enabled) return 704;
  is_peer_enabled = 1;
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) { *stream = &stream_of_ours; return flags == 1 ? 0 : INVALID; }
int cuStreamSynchronize(void* stream) { done_ns = now_ns; return fake_is_stream(stream) ? 0 : INVALID; }
int cuEventCreate(void** event, unsigned flags) {
  *event = &events[event_count++];
  return flags ? INVALID : 0;
}
int cuEventRecord(void* event, void* stream) {
  *(int64_t*)event = now_ns;
  now_ns += 1;  /* so that an event before work is not over while that is queued */
  return fake_is_stream(stream) ? 0 : INVALID;
}
int cuEventQuery(void* event) { return *(int64_t*)event < done_ns ? 0 : NOT_READY; }
int cuEventElapsedTime(float* ms, void* begin, void* end) {
  if (*(int64_t*)end >= done_ns) return NOT_READY;
  *ms = (float)(*(int64_t*)end - *(int64_t*)begin - 1) * 1e-6f;
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t size) {
  enter("cuMemAlloc");
  if (size > limit()) return OUT_OF_MEMORY;
  for (int i = 0; i < MOST; ++i)
    if (!blocks[i].at) {
      blocks[i].at = calloc(size, 1), blocks[i].size = size, blocks[i].device = current;
      *address = (uint64_t)blocks[i].at;
      return 0;
    }
  return INVALID;
}
int cuMemFree_v2(uint64_t address) {
  for (int i = 0; i < MOST; ++i)
    if (blocks[i].at == (char*)address) { free(blocks[i].at); blocks[i].at = NULL; return 0; }
  return INVALID;
}
int cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  for (int i = 0; i < MOST; ++i)
    if (!pinned[i].at) {
      *address = pinned[i].at = calloc(size, 1), pinned[i].size = size;
      return flags ? INVALID : 0;
    }
  return INVALID;
}
int cuMemFreeHost(void* address) {
  for (int i = 0; i < MOST; ++i)
    if (pinned[i].at == address) { free(address); pinned[i].at = NULL; return 0; }
  return INVALID;
}
static int is_pinned(void* address, size_t size) {
  for (int i = 0; i < MOST; ++i)
    if (pinned[i].at == address && size <= pinned[i].size) return 1;
  return 0;
}
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, void* stream) {
  fake_work((int64_t)(size / 1000));  /* 1 TB/s */
  return fake_has(address, size, current) && value == 0 && fake_is_stream(stream) ? 0 : INVALID;
}
/* 50 GB/s pinned, 10 GB/s pageable. */
int cuMemcpyHtoDAsync_v2(uint64_t to, void* from, size_t size, void* stream) {
  enter("cuMemcpyHtoDAsync");
  if (!fake_has(to, size, current) || !fake_is_stream(stream)) return INVALID;
  memcpy((void*)to, from, part(size));
  fake_work((int64_t)(size / (is_pinned(from, size) ? 50 : 10)));
  return 0;
}
/* 40 GB/s pinned, 8 GB/s pageable. */
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void* stream) {
  if (!fake_has(from, size, current) || !fake_is_stream(stream)) return INVALID;
  memcpy(to, (void*)from, part(size));
  fake_work((int64_t)(size / (is_pinned(to, size) ? 40 : 8)));
  return 0;
}
/* 1 TB/s. */
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void* stream) {
  fake_work((int64_t)(size / 1000));
  return fake_has(to, size, current) && fake_has(from, size, current) && to != from &&
    fake_is_stream(stream) ? 0 : INVALID;
}
/* 200 GB/s. */
int cuMemcpyPeerAsync(uint64_t to, void* there, uint64_t from, void* here, size_t size, void* stream) {
  fake_work((int64_t)(size / 200));
  return there != here && here == &contexts[current] && fake_is_stream(stream) &&
    fake_has(from, size, current) && fake_has(to, size, (int)((char*)there - contexts)) ? 0 : INVALID;
}
int cuModuleLoadData(void** module, const char* text) {
  *module = &module_of_ours;
  return strstr(text, ".entry empty()") || strstr(text, ".entry stamp(") ? 0 : INVALID;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  int is_stamp = strcmp(name, "stamp") == 0;
  *function = is_stamp ? &stamp_of_ours : &kernel_of_ours;
  return module == &module_of_ours && (is_stamp || strcmp(name, "empty") == 0) ? 0 : INVALID;
}
/* Writes the time and the cycles of each SM, at 1.5 GHz; half of the SMs have other counts. */
static int stamp(unsigned blocks, unsigned threads, void* stream, void** arguments) {
  uint64_t at = *(uint64_t*)arguments[0];
  if (!fake_has(at, blocks * 16, current) || !fake_is_stream(stream) || threads != 1) return INVALID;
  for (unsigned sm = 0; sm < blocks; ++sm) {
    ((uint64_t*)at)[2 * sm] = (uint64_t)now_ns;
    ((uint64_t*)at)[2 * sm + 1] = (uint64_t)(now_ns * 3 / 2 + 1000 * (sm % 2));
  }
  return 0;
}
/* 2 us alone, 1 us in a graph. */
int cuLaunchKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  if (kernel == &stamp_of_ours) return stamp(gx, bx * by * bz * gy * gz, stream, arguments);
  if (is_capturing) ++captured; else fake_work(2000);
  return kernel == &kernel_of_ours && gx == 1 && gy == 1 && gz == 1 && bx == 1 && by == 1 && bz == 1 &&
    !shared && fake_is_stream(stream) && !arguments && !extra ? 0 : INVALID;
}
int cuStreamBeginCapture_v2(void* stream, int mode) {
  is_capturing = 1, captured = 0;
  return fake_is_stream(stream) && mode == 2 ? 0 : INVALID;
}
int cuStreamEndCapture(void* stream, void** graph) {
  is_capturing = 0;
  graphs[graph_count] = captured;
  *graph = &graphs[graph_count++];
  return fake_is_stream(stream) ? 0 : INVALID;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  *executable = graph;
  return flags ? INVALID : 0;
}
int cuGraphLaunch(void* executable, void* stream) {
  fake_work(1000 * *(int*)executable);
  return fake_is_stream(stream) ? 0 : INVALID;
}
int cuGraphExecDestroy(void* executable) { return *(int*)executable ? 0 : INVALID; }
int cuGraphDestroy(void* graph) { return *(int*)graph ? 0 : INVALID; }
