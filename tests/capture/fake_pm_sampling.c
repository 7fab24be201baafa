/* A stand-in for CUPTI's PM sampling and for the part of the CUDA driver that it needs, as strict about
   sizes, order and threads as the documentation. It has the two GPUs of fake_nvml.c.

   Each decoding finds the samples of the time since the one before. Sample k of a GPU, from 0, lasts
   1 / frequency; metric m, from 0, has the value (m + 1) * (k % 1000 + 1) then, or 7 if its name has
   "constant" in it. The environment sets it up:

   FAKE_PM_REFUSE=F=S    function F returns status S
   FAKE_PM_LACKS=WORD    no chip has metrics with this word in their name
   FAKE_PM_MOST=N        metrics that fit in one pass (16)
   FAKE_PM_OVERFLOW=N    the GPU's buffer is full at decoding N, of GPU 0
   FAKE_PM_ONCE=1        sampling that was stopped cannot be started again until it is enabled anew
   FAKE_PM_DIES=N        the process kills itself at decoding N
   FAKE_PM_BLOCKS=N      decoding N does not return
   FAKE_PM_FAILS=K       sample K cannot be evaluated
   FAKE_PM_BAD=K         sample K of the first metric is not a number
   FAKE_PM_LOSES=1       samples are lost where an image has no room for them
   FAKE_PM_CUINIT=S      cuInit returns status S
   FAKE_PM_SLOW=S        cuInit takes S seconds
   FAKE_PM_CHIP=NAME     the chip (GH100)
   FAKE_PM_HIDES=1       CUDA shows no GPU, as it does with MIG
   FAKE_PM_COUNTS=1      the bytes of the UUID of GPU 0 are 0x00, 0x11, ... 0xff

   What a caller does wrong is written to the file FAKE_PM_VIOLATIONS. */
#define _GNU_SOURCE /* gettid */
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, INVALID_OPERATION = 7, FULL = 8, NOT_INITIALISED = 15, NO_METRIC = 16 };
enum { MOST_METRICS = 64, SAMPLE_BYTES = 12800, GPUS = 2, PM_SAMPLING = 1 };

typedef struct {
  uint64_t magic, bytes, slots, metrics, used;
} Image;
typedef struct {
  uint64_t index, start_ns, end_ns;
} Slot;
typedef struct {
  int metrics;
  char names[MOST_METRICS][160];
} Host;
typedef struct {
  int device, is_enabled, is_configured, is_started, decodings, was_full;
  pid_t thread;
  uint64_t interval_ns, first_ns, next, metrics;
} Sampler;

static const uint64_t kImage = 0x57494d4147450001, kConfig = 0x57434f4e46490002;
static int is_initialised, is_profiling;
static Sampler samplers[GPUS];

static long number_of(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text ? atol(text) : otherwise;
}

static int tell(const char* function, const char* what, int status) {
  const char* path = getenv("FAKE_PM_VIOLATIONS");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (file) {
    fprintf(file, "%s: %s\n", function, what);
    fclose(file);
  }
  return status;
}

static int refused(const char* function) {
  const char* all = getenv("FAKE_PM_REFUSE");
  const char* found = all ? strstr(all, function) : NULL;
  return found && found[strlen(function)] == '=' ? atoi(found + strlen(function) + 1) : OK;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define HEAD size_t structSize; void* pPriv
#define SIZE(p, last) (offsetof(__typeof__(*(p)), last) + sizeof((p)->last))
#define CHECK(p, last)                                                                              \
  if ((p)->structSize != SIZE(p, last)) return tell(__func__, "wrong structSize", INVALID);       \
  if ((p)->pPriv) return tell(__func__, "pPriv is not null", INVALID);                            \
  if (refused(__func__)) return refused(__func__)

/* The driver. */
int cuInit(unsigned flags) {
  is_initialised = flags == 0;
  sleep((unsigned)number_of("FAKE_PM_SLOW", 0));
  return (int)number_of("FAKE_PM_CUINIT", 0);
}
int fake_is_initialised(void) { return is_initialised; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number_of("FAKE_PM_HIDES", 0) ? 0 : GPUS;
  return is_initialised ? 0 : 3;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < GPUS ? 0 : 101;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  memset(uuid, 0, 16);
  uuid[3] = (unsigned char)device;
  for (int i = 0; device == 0 && number_of("FAKE_PM_COUNTS", 0) && i < 16; ++i) {
    uuid[i] = (unsigned char)(17 * i);
  }
  return 0;
}

/* The profiler and its host. The driver is another copy of this library. */
static int is_driver_ready(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  int (*is_ready)(void) = driver ? (int (*)(void))dlsym(driver, "fake_is_initialised") : NULL;
  return is_ready && is_ready();
}

typedef struct { HEAD; } InitializeParams;
int cuptiProfilerInitialize(InitializeParams* p) {
  CHECK(p, pPriv);
  if (!is_driver_ready()) return tell(__func__, "before cuInit", NOT_INITIALISED);
  is_profiling = 1;
  return OK;
}

typedef struct { HEAD; size_t deviceIndex; const char* pChipName; } ChipParams;
int cuptiDeviceGetChipName(ChipParams* p) {
  CHECK(p, pChipName);
  if (p->deviceIndex >= GPUS) return INVALID;
  p->pChipName = getenv("FAKE_PM_CHIP") ? getenv("FAKE_PM_CHIP") : "GH100";
  return OK;
}

typedef struct { HEAD; int profilerType; const char* pChipName; const uint8_t* pAvailability; Host* pHostObject; } HostParams;
int cuptiProfilerHostInitialize(HostParams* p) {
  CHECK(p, pHostObject);
  if (p->profilerType != PM_SAMPLING) return tell(__func__, "another type of profiler", INVALID);
  if (!p->pAvailability || *p->pAvailability != 0xa5) return tell(__func__, "no availability", INVALID);
  p->pHostObject = calloc(1, sizeof(Host));
  return OK;
}

typedef struct { HEAD; Host* pHostObject; } HostEndParams;
int cuptiProfilerHostDeinitialize(HostEndParams* p) {
  CHECK(p, pHostObject);
  free(p->pHostObject);
  return OK;
}

typedef struct { HEAD; Host* pHostObject; const char** ppMetricNames; size_t numMetrics; } AddParams;
int cuptiProfilerHostConfigAddMetrics(AddParams* p) {
  CHECK(p, numMetrics);
  if (p->numMetrics > MOST_METRICS) return INVALID;
  for (size_t i = 0; i < p->numMetrics; ++i) {
    const char* lacks = getenv("FAKE_PM_LACKS");
    const char* name = p->ppMetricNames[i];
    if (!strstr(name, "__") || !strchr(name, '.') || (lacks && strstr(name, lacks))) return NO_METRIC;
    snprintf(p->pHostObject->names[i], sizeof p->pHostObject->names[i], "%s", name);
  }
  p->pHostObject->metrics = (int)p->numMetrics;
  return OK;
}

typedef struct { HEAD; Host* pHostObject; size_t configImageSize; } ConfigSizeParams;
int cuptiProfilerHostGetConfigImageSize(ConfigSizeParams* p) {
  CHECK(p, configImageSize);
  p->configImageSize = 2 * sizeof(uint64_t);
  return p->pHostObject->metrics ? OK : tell(__func__, "no metrics", INVALID);
}

typedef struct { HEAD; Host* pHostObject; size_t configImageSize; uint8_t* pConfigImage; } ConfigParams;
int cuptiProfilerHostGetConfigImage(ConfigParams* p) {
  CHECK(p, pConfigImage);
  const uint64_t image[2] = {kConfig, (uint64_t)p->pHostObject->metrics};
  if (p->configImageSize != sizeof image) return tell(__func__, "wrong size", INVALID);
  memcpy(p->pConfigImage, image, sizeof image);
  return OK;
}

static uint64_t metrics_of(const uint8_t* config, size_t bytes) {
  uint64_t image[2] = {0, 0};
  if (bytes == sizeof image) memcpy(image, config, sizeof image);
  return image[0] == kConfig ? image[1] : 0;
}

typedef struct { HEAD; size_t configImageSize; const uint8_t* pConfigImage; size_t numOfPasses; } PassesParams;
int cuptiProfilerHostGetNumOfPasses(PassesParams* p) {
  CHECK(p, numOfPasses);
  const uint64_t metrics = metrics_of(p->pConfigImage, p->configImageSize);
  if (!metrics) return tell(__func__, "no configuration", INVALID);
  p->numOfPasses = metrics > (uint64_t)number_of("FAKE_PM_MOST", 16) ? 2 : 1;
  return OK;
}

/* PM sampling. */
typedef struct { HEAD; size_t deviceIndex; size_t size; uint8_t* image; } AvailabilityParams;
int cuptiPmSamplingGetCounterAvailability(AvailabilityParams* p) {
  CHECK(p, image);
  if (!is_profiling) return tell(__func__, "before cuptiProfilerInitialize", NOT_INITIALISED);
  if (p->deviceIndex >= GPUS) return INVALID;
  if (!p->image) {
    p->size = 64;
  } else if (p->size != 64) {
    return tell(__func__, "wrong size", INVALID);
  } else {
    memset(p->image, 0xa5, 64);
  }
  return OK;
}

typedef struct { HEAD; size_t deviceIndex; Sampler* object; } EnableParams;
int cuptiPmSamplingEnable(EnableParams* p) {
  CHECK(p, object);
  if (p->deviceIndex >= GPUS) return INVALID;
  Sampler* sampler = &samplers[p->deviceIndex];
  if (sampler->is_enabled) return tell(__func__, "is enabled", INVALID_OPERATION);
  *sampler = (Sampler){.device = (int)p->deviceIndex, .is_enabled = 1, .thread = gettid()};
  p->object = sampler;
  return OK;
}

static int checked(const char* function, const Sampler* sampler) {
  if (!sampler || !sampler->is_enabled) return tell(function, "not enabled", INVALID);
  if (sampler->thread != gettid()) return tell(function, "called by another thread", INVALID);
  return OK;
}
#define OBJECT(p, last)                                        \
  CHECK(p, last);                                              \
  if (checked(__func__, (p)->object)) return INVALID

typedef struct { HEAD; Sampler* object; } ObjectParams;
int cuptiPmSamplingDisable(ObjectParams* p) {
  OBJECT(p, object);
  if (p->object->is_started) return tell(__func__, "is started", INVALID_OPERATION);
  p->object->is_enabled = 0;
  return OK;
}

typedef struct { HEAD; Sampler* object; size_t configSize; const uint8_t* pConfig; size_t hardwareBufferSize; uint64_t samplingInterval; int triggerMode; int appendMode; } SetParams;
int cuptiPmSamplingSetConfig(SetParams* p) {
  OBJECT(p, appendMode);
  Sampler* sampler = p->object;
  sampler->metrics = metrics_of(p->pConfig, p->configSize);
  if (!sampler->metrics) return tell(__func__, "no configuration", INVALID);
  if (p->hardwareBufferSize < SAMPLE_BYTES || p->hardwareBufferSize > 512u << 20)
    return tell(__func__, "an unlikely size of the buffer", INVALID);
  if (p->samplingInterval < 1000) return tell(__func__, "too short an interval", INVALID);
  if (p->appendMode != 0) return tell(__func__, "another mode", INVALID);
  sampler->interval_ns = p->triggerMode ? p->samplingInterval : p->samplingInterval * 5 / 6;
  sampler->is_configured = 1;
  return OK;
}

int cuptiPmSamplingStart(ObjectParams* p) {
  OBJECT(p, object);
  Sampler* sampler = p->object;
  if (!sampler->is_configured) return tell(__func__, "not configured", INVALID_OPERATION);
  if (sampler->is_started) return tell(__func__, "is started", INVALID_OPERATION);
  if (number_of("FAKE_PM_ONCE", 0) && sampler->first_ns) return INVALID_OPERATION;
  const uint64_t passed = sampler->first_ns ? (now_ns() - sampler->first_ns) / sampler->interval_ns : 0;
  if (!sampler->first_ns) sampler->first_ns = now_ns();
  if (passed > sampler->next) sampler->next = passed;
  sampler->is_started = 1;
  sampler->was_full = 0;
  return OK;
}

int cuptiPmSamplingStop(ObjectParams* p) {
  OBJECT(p, object);
  if (!p->object->is_started) return tell(__func__, "not started", INVALID_OPERATION);
  p->object->is_started = 0;
  return OK;
}

typedef struct { HEAD; Sampler* object; const char** pMetricNames; size_t numMetrics; uint32_t maxSamples; size_t counterDataSize; } DataSizeParams;
int cuptiPmSamplingGetCounterDataSize(DataSizeParams* p) {
  OBJECT(p, counterDataSize);
  if (p->numMetrics != p->object->metrics) return tell(__func__, "other metrics", INVALID);
  if (p->maxSamples < 16) return tell(__func__, "few samples", INVALID);
  p->counterDataSize = sizeof(Image) + p->maxSamples * sizeof(Slot);
  return OK;
}

typedef struct { HEAD; Sampler* object; size_t size; uint8_t* image; } ImageParams;
int cuptiPmSamplingCounterDataImageInitialize(ImageParams* p) {
  OBJECT(p, image);
  const Image head = {kImage, p->size, (p->size - sizeof(Image)) / sizeof(Slot), p->object->metrics, 0};
  memset(p->image, 0, p->size);
  memcpy(p->image, &head, sizeof head);
  return OK;
}

static Image* image_of(uint8_t* data, size_t size) {
  Image* image = (Image*)data;
  return image && image->magic == kImage && image->bytes == size ? image : NULL;
}
static Slot* slots_of(Image* image) { return (Slot*)(image + 1); }

typedef struct { HEAD; Sampler* object; uint8_t* image; size_t size; int reason; uint8_t overflow; } DecodeParams;
int cuptiPmSamplingDecodeData(DecodeParams* p) {
  OBJECT(p, overflow);
  Sampler* sampler = p->object;
  Image* image = image_of(p->image, p->size);
  if (!image) return tell(__func__, "no image", INVALID);
  if (image->used) return tell(__func__, "the image is not empty", INVALID);
  const int decoding = ++sampler->decodings;
  if (decoding == number_of("FAKE_PM_DIES", 0)) kill(getpid(), SIGKILL);
  if (decoding == number_of("FAKE_PM_BLOCKS", 0)) pause();
  if (!sampler->first_ns) return tell(__func__, "never started", INVALID_OPERATION);
  uint64_t there = (now_ns() - sampler->first_ns) / sampler->interval_ns;
  if (sampler->was_full) there = sampler->next;
  if (decoding == number_of("FAKE_PM_OVERFLOW", 0) && sampler->device == 0) sampler->was_full = 1;
  p->reason = 2;
  p->overflow = 0;
  while (sampler->next < there) {
    if (image->used == image->slots) {
      p->reason = 1;
      if (number_of("FAKE_PM_LOSES", 0)) sampler->next += 2;
      break;
    }
    const uint64_t start = sampler->first_ns + sampler->next * sampler->interval_ns;
    slots_of(image)[image->used++] = (Slot){sampler->next, start, start + sampler->interval_ns};
    ++sampler->next;
  }
  return sampler->was_full ? FULL : OK;
}

typedef struct { HEAD; uint8_t* image; size_t size; size_t total, populated, completed; } InfoParams;
int cuptiPmSamplingGetCounterDataInfo(InfoParams* p) {
  CHECK(p, completed);
  const Image* image = image_of(p->image, p->size);
  if (!image) return tell(__func__, "no image", INVALID);
  p->total = image->slots;
  p->populated = p->completed = image->used;
  return OK;
}

typedef struct { HEAD; Sampler* object; uint8_t* image; size_t size; size_t sample; uint64_t start, end; } SampleParams;
int cuptiPmSamplingCounterDataGetSampleInfo(SampleParams* p) {
  OBJECT(p, end);
  Image* image = image_of(p->image, p->size);
  if (!image || p->sample >= image->used) return tell(__func__, "no such sample", INVALID);
  p->start = slots_of(image)[p->sample].start_ns;
  p->end = slots_of(image)[p->sample].end_ns;
  return OK;
}

typedef struct { HEAD; Host* host; uint8_t* image; size_t size; size_t sample; const char** names; size_t metrics; double* values; } EvaluateParams;
int cuptiProfilerHostEvaluateToGpuValues(EvaluateParams* p) {
  CHECK(p, values);
  Image* image = image_of(p->image, p->size);
  if (!image || p->sample >= image->used) return tell(__func__, "no such sample", INVALID);
  if (p->metrics != (size_t)p->host->metrics) return tell(__func__, "other metrics", INVALID);
  const uint64_t index = slots_of(image)[p->sample].index;
  if ((long)index == number_of("FAKE_PM_FAILS", -1)) return 999;
  for (size_t i = 0; i < p->metrics; ++i) {
    const int is_constant = strstr(p->names[i], "constant") != NULL;
    p->values[i] = is_constant ? 7 : (double)(i + 1) * (double)(index % 1000 + 1);
  }
  if ((long)index == number_of("FAKE_PM_BAD", -1)) p->values[0] = NAN;
  return OK;
}
