// Times NVTX calls from C: prints "FORM NANOSECONDS" for a range (its begin and its end) or a mark.
//
//     nvtx_cost COUNT
//
// Each form runs COUNT times after a warm-up, in short parts; the median part counts, so that
// what the machine does beside it falls out.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kParts = 101, kWarmUp = 20000 };

static nvtxDomainHandle_t domain;
static nvtxEventAttributes_t registered;
static nvtxEventAttributes_t everything;

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

static void push_literal(long count) {
  for (long i = 0; i < count; ++i) {
    nvtxRangePushA("a range of the program");
    nvtxRangePop();
  }
}

static void push_registered(long count) {
  for (long i = 0; i < count; ++i) {
    nvtxDomainRangePushEx(domain, &registered);
    nvtxDomainRangePop(domain);
  }
}

static void push_everything(long count) {
  for (long i = 0; i < count; ++i) {
    nvtxDomainRangePushEx(domain, &everything);
    nvtxDomainRangePop(domain);
  }
}

static void start_end(long count) {
  for (long i = 0; i < count; ++i) nvtxRangeEnd(nvtxRangeStartA("a range of the program"));
}

static void mark(long count) {
  for (long i = 0; i < count; ++i) nvtxMarkA("a moment");
}

static int by_value(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static void run(const char* form, void (*calls)(long), long count) {
  double parts[kParts];
  calls(kWarmUp);
  for (int part = 0; part < kParts; ++part) {
    const double begin = now_ns();
    calls(count / kParts);
    parts[part] = (now_ns() - begin) / (count / kParts);
  }
  qsort(parts, kParts, sizeof *parts, by_value);
  printf("%s %.2f\n", form, parts[kParts / 2]);
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 200000;
  domain = nvtxDomainCreateA("cost");
  nvtxDomainNameCategoryA(domain, 7, "category");
  registered.version = everything.version = NVTX_VERSION;
  registered.size = everything.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  registered.message.registered = nvtxDomainRegisterStringA(domain, "a registered range");
  everything.messageType = NVTX_MESSAGE_TYPE_ASCII;
  everything.message.ascii = "a range of the program";
  everything.colorType = NVTX_COLOR_ARGB;
  everything.color = 0xff4080c0;
  everything.category = 7;
  everything.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  everything.payload.ullValue = 42;
  run("push-pop-literal", push_literal, count);
  run("push-pop-registered", push_registered, count);
  run("push-pop-all-fields", push_everything, count);
  run("start-end-literal", start_end, count);
  run("mark-literal", mark, count);
  return 0;
}
