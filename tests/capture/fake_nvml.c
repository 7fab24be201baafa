/* A stand-in for NVML, the library that manages GPUs, for those that read the state of GPUs. It has two
   GPUs whose numbers follow from how often they were read:

   FAKE_NVML_LOST=N     GPU 1 is lost at its reading N
   FAKE_NVML_BLOCKS=MS  each reading takes so long
   FAKE_NVML_PIDS=A,B   processes on GPU 0, with 1 GiB each; 0 is the calling process's launcher
   FAKE_NVML_XID=X      an error of GPU 1, once
   FAKE_NVML_OLD=1      what older drivers and GPUs lack is not supported
   FAKE_NVML_UUID=U     UUID of GPU 0
   FAKE_NVML_GPM=1      GPM metrics are supported: metric N has the value N, 2 has 42, 13 is unknown */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, TIMEOUT = 10, LOST = 15 };

typedef struct {
  int number;
  int readings;
} Gpu;

static Gpu gpus[2] = {{0, 0}, {1, 0}};
static int is_begun, is_watched;

static long number_of(const char* name) {
  const char* text = getenv(name);
  return text ? atol(text) : 0;
}

static int is_old(void) { return number_of("FAKE_NVML_OLD") != 0; }

static int state(const Gpu* gpu) {
  const long lost = number_of("FAKE_NVML_LOST");
  if (!is_begun) return 1;
  return gpu->number == 1 && lost && gpu->readings >= lost ? LOST : OK;
}

static int put(const Gpu* gpu, unsigned* to, unsigned value) {
  const int status = state(gpu);
  if (status == OK) *to = value;
  return status;
}

int nvmlInit_v2(void) {
  is_begun = 1;
  return OK;
}

int nvmlShutdown(void) {
  is_begun = 0;
  return OK;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** gpu) {
  if (index > 1) return INVALID;
  *gpu = &gpus[index];
  return OK;
}

int nvmlDeviceGetUUID(const Gpu* gpu, char* text, unsigned room) {
  const char* own = gpu->number == 0 ? getenv("FAKE_NVML_UUID") : NULL;
  if (own) snprintf(text, room, "%s", own);
  else snprintf(text, room, "GPU-0000000%d-0000-0000-0000-000000000000", gpu->number);
  return OK;
}

int nvmlDeviceGetName(const Gpu* gpu, char* text, unsigned room) {
  snprintf(text, room, "Fake GPU");
  return state(gpu);
}

int nvmlDeviceGetMaxClockInfo(const Gpu* gpu, int kind, unsigned* mhz) {
  return kind == 2 ? put(gpu, mhz, 2619) : INVALID;
}

int nvmlDeviceGetEnforcedPowerLimit(const Gpu* gpu, unsigned* mw) { return put(gpu, mw, 500000); }

int nvmlDeviceGetPowerManagementDefaultLimit(const Gpu* gpu, unsigned* mw) {
  return put(gpu, mw, 700000);
}

int nvmlDeviceGetMaxPcieLinkGeneration(const Gpu* gpu, unsigned* value) { return put(gpu, value, 5); }

int nvmlDeviceGetMaxPcieLinkWidth(const Gpu* gpu, unsigned* value) { return put(gpu, value, 16); }

int nvmlDeviceGetCurrPcieLinkGeneration(const Gpu* gpu, unsigned* value) {
  return put(gpu, value, 4);
}

int nvmlDeviceGetCurrPcieLinkWidth(const Gpu* gpu, unsigned* value) { return put(gpu, value, 8); }

/* The SM clock is the first thing of a reading that is asked for, after fields and utilization. */
int nvmlDeviceGetClockInfo(Gpu* gpu, int kind, unsigned* mhz) {
  if (kind == 1) ++gpu->readings;
  if (number_of("FAKE_NVML_BLOCKS")) usleep((unsigned)number_of("FAKE_NVML_BLOCKS") * 1000);
  return put(gpu, mhz, kind == 1 ? 1980 - 10 * gpu->readings : 2619);
}

int nvmlDeviceGetCurrentClocksEventReasons(const Gpu* gpu, unsigned long long* mask) {
  if (is_old()) return 13;
  *mask = 4;
  return state(gpu);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(const Gpu* gpu, unsigned long long* mask) {
  *mask = 0x20;
  return state(gpu);
}

int nvmlDeviceGetPowerUsage(const Gpu* gpu, unsigned* mw) {
  return put(gpu, mw, 300000 + 125 * (unsigned)gpu->readings);
}

int nvmlDeviceGetTotalEnergyConsumption(const Gpu* gpu, unsigned long long* mj) {
  if (is_old()) return UNSUPPORTED;
  *mj = 5000000000000ULL + 300 * (unsigned)gpu->readings;
  return state(gpu);
}

int nvmlDeviceGetTemperature(const Gpu* gpu, int sensor, unsigned* value) {
  return sensor == 0 ? put(gpu, value, 61) : INVALID;
}

int nvmlDeviceGetMemoryInfo_v2(const Gpu* gpu, void* memory) {
  struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
  }* found = memory;
  if (is_old() || found->version != (sizeof *found | 2 << 24)) return INVALID;
  found->used = 7ULL << 30;
  return state(gpu);
}

int nvmlDeviceGetMemoryInfo(const Gpu* gpu, unsigned long long* memory) {
  memory[2] = 8ULL << 30;
  return state(gpu);
}

int nvmlDeviceGetUtilizationRates(const Gpu* gpu, unsigned* rates) {
  rates[0] = 75;
  rates[1] = 40;
  return state(gpu);
}

int nvmlDeviceGetNvLinkState(const Gpu* gpu, unsigned link, unsigned* value) {
  if (is_old() || link >= 18) return INVALID;
  return put(gpu, value, link < 17);
}

int nvmlDeviceGetTotalEccErrors(const Gpu* gpu, int kind, int counter, unsigned long long* errors) {
  if (is_old() || counter != 0) return UNSUPPORTED;
  *errors = kind == 0 ? 12 : 1;
  return state(gpu);
}

typedef struct {
  unsigned field, scope;
  long long timestamp, latency;
  int type, status;
  unsigned long long value;
} Field;

int nvmlDeviceGetFieldValues(const Gpu* gpu, int count, Field* fields) {
  for (int i = 0; i < count; ++i) {
    Field* field = &fields[i];
    field->status = is_old() ? UNSUPPORTED : OK;
    field->type = 3;
    switch (field->field) {
      case 74: field->value = 1000000000; break;
      case 75: field->value = 2000000; break;
      case 82:
        field->type = 1; /* the rest of the value is of the last one */
        field->value = 0xdead000000000000ULL | 77;
        break;
      case 138: field->value = field->scope == 0xffffffff ? 1000 : 0; break;
      case 139: field->value = field->scope == 0xffffffff ? 2000 : 0; break;
      default: field->status = UNSUPPORTED;
    }
  }
  return state(gpu);
}

typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned instances[2];
} Process;

int nvmlDeviceGetComputeRunningProcesses_v3(const Gpu* gpu, unsigned* count, Process* processes) {
  const unsigned room = *count;
  const char* pids = gpu->number == 0 ? getenv("FAKE_NVML_PIDS") : NULL;
  *count = 0;
  for (; pids; pids = strchr(pids, ',') ? strchr(pids, ',') + 1 : NULL) {
    if (*count < room) processes[*count] = (Process){(unsigned)atoi(pids), 1ULL << 30, {0, 0}};
    ++*count;
  }
  return *count > room ? 7 : state(gpu);
}

int nvmlEventSetCreate(void** set) {
  *set = &is_watched;
  return OK;
}

int nvmlDeviceRegisterEvents(const Gpu* gpu, unsigned long long kinds, void* set) {
  if (kinds != 8 || set != &is_watched) return INVALID;
  is_watched = 1;
  return is_old() ? UNSUPPORTED : state(gpu);
}

typedef struct {
  Gpu* gpu;
  unsigned long long kind, data;
  unsigned instances[2];
} Event;

int nvmlEventSetWait_v2(void* set, Event* event, unsigned timeout_ms) {
  static int is_told;
  if (set != &is_watched || timeout_ms != 0) return INVALID;
  if (is_told || !number_of("FAKE_NVML_XID")) return TIMEOUT;
  is_told = 1;
  *event = (Event){&gpus[1], 8, (unsigned long long)number_of("FAKE_NVML_XID"), {0, 0}};
  return OK;
}

/* GPM metrics: a sample is a number that grows. */
int nvmlGpmQueryDeviceSupport(const Gpu* gpu, unsigned* support) {
  if (support[0] != 1) return INVALID;
  support[1] = number_of("FAKE_NVML_GPM") != 0;
  return state(gpu);
}

int nvmlGpmSampleAlloc(long** sample) {
  *sample = calloc(1, sizeof **sample);
  return OK;
}

int nvmlGpmSampleGet(const Gpu* gpu, long* sample) {
  static long samples;
  *sample = ++samples;
  return state(gpu);
}

int nvmlGpmMetricsGet(void* asked) {
  struct {
    unsigned version, count;
    long *before, *now;
    struct {
      unsigned id, status;
      double value;
      const char* texts[3];
    } metrics[];
  }* get = asked;
  if (get->version != 1 || *get->before >= *get->now) return INVALID;
  for (unsigned i = 0; i < get->count; ++i) {
    get->metrics[i].status = get->metrics[i].id == 13 ? UNSUPPORTED : OK;
    get->metrics[i].value = get->metrics[i].id == 2 ? 42 : get->metrics[i].id;
  }
  return OK;
}
