// Calls NVTX's core functions in the way that its first argument names. Prints what they return.
#define _GNU_SOURCE
#ifdef NVTX2
#include <nvToolsExt.h>
#define nvtxInitialize(reserved) nvtxRangePop()
#else
#include <nvtx3/nvToolsExt.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

static nvtxEventAttributes_t attributes_of(const char* text) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  return attributes;
}

static void forms(void) {
  nvtxMarkA("mark a");
  nvtxMarkW(L"mark w \u00e9\u4e16\U0001f600");
  nvtxEventAttributes_t attributes = attributes_of("mark ex");
  nvtxMarkEx(&attributes);
  printf("%d ", nvtxRangePushA("push a"));
  printf("%d ", nvtxRangePushW(L"push w"));
  attributes.message.ascii = "push ex";
  printf("%d ", nvtxRangePushEx(&attributes));
  printf("%d ", nvtxRangePop());
  printf("%d ", nvtxRangePop());
  printf("%d\n", nvtxRangePop());
  nvtxRangeId_t first = nvtxRangeStartA("start a");
  nvtxRangeId_t second = nvtxRangeStartW(L"start w");
  attributes.message.ascii = "start ex";
  nvtxRangeId_t third = nvtxRangeStartEx(&attributes);
  nvtxRangeEnd(first);
  nvtxRangeEnd(third);
  nvtxRangeEnd(second);
}

static void domains(void) {
  nvtxDomainHandle_t one = nvtxDomainCreateA("one");
  nvtxDomainHandle_t two = nvtxDomainCreateW(L"tw\u00f6");
  printf("%d ", nvtxDomainCreateA("one") == one);
  nvtxEventAttributes_t attributes = attributes_of("in a domain");
  attributes.category = 7;
  nvtxDomainNameCategoryA(one, 7, "seven of one");
  nvtxDomainNameCategoryW(two, 7, L"sieben von tw\u00f6");
  nvtxNameCategoryA(7, "seven of the default");
  nvtxNameCategoryW(8, L"eight of the default");
  nvtxDomainMarkEx(one, &attributes);
  nvtxDomainMarkEx(NULL, &attributes);
  printf("%d ", nvtxDomainRangePushEx(one, &attributes));
  printf("%d ", nvtxDomainRangePushEx(two, &attributes));
  printf("%d ", nvtxDomainRangePushEx(one, &attributes));
  printf("%d ", nvtxDomainRangePop(one));
  printf("%d ", nvtxDomainRangePop(one));
  printf("%d\n", nvtxDomainRangePop(two));
  nvtxDomainRangeEnd(one, nvtxDomainRangeStartEx(one, &attributes));
  nvtxDomainDestroy(one);
  nvtxDomainMarkEx(one, &attributes);  // a mistake that other tools survive too
}

static void registered(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("strings");
  nvtxEventAttributes_t attributes = attributes_of(NULL);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  nvtxStringHandle_t narrow = nvtxDomainRegisterStringA(domain, "registered a");
  attributes.message.registered = nvtxDomainRegisterStringW(domain, L"registered w \u00df");
  printf("%d\n", nvtxDomainRegisterStringA(domain, "registered a") == narrow);
  for (int i = 0; i < 3; ++i) nvtxDomainMarkEx(domain, &attributes);
  attributes.message.registered = narrow;
  nvtxDomainMarkEx(domain, &attributes);
  nvtxMarkEx(&attributes);
}

static void attributes(void) {
  nvtxEventAttributes_t attributes = attributes_of("u64");
  attributes.category = 5;
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = 0x80ff7f01;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = ~0ull;
  nvtxMarkEx(&attributes);
  attributes.colorType = NVTX_COLOR_UNKNOWN;
  attributes.message.ascii = "i64";
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = -5;
  nvtxMarkEx(&attributes);
  attributes.message.ascii = "double";
  attributes.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  attributes.payload.dValue = -0.1;
  nvtxMarkEx(&attributes);
  memset(&attributes.payload, 0xff, sizeof attributes.payload);
  attributes.message.ascii = "u32";
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
  attributes.payload.uiValue = 0xfffffffe;
  nvtxMarkEx(&attributes);
  attributes.message.ascii = "i32";
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  attributes.payload.iValue = -7;
  nvtxMarkEx(&attributes);
  attributes.message.ascii = "float";
  attributes.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
  attributes.payload.fValue = 1.5f;
  nvtxMarkEx(&attributes);
  attributes.message.ascii = "of no known type";
  attributes.payloadType = 99;
  nvtxMarkEx(&attributes);
}

static void odd(void) {
  printf("%d ", nvtxRangePop());
  nvtxMarkA(NULL);
  nvtxMarkW(NULL);
  nvtxMarkEx(NULL);
  nvtxNameCategoryA(1, NULL);
  nvtxNameOsThreadA(1, NULL);
  nvtxRangeEnd(0);
  printf("%d ", nvtxDomainCreateA(NULL) == NULL);
  printf("%d ", nvtxDomainRegisterStringA(NULL, NULL) == NULL);
  nvtxEventAttributes_t attributes = attributes_of(NULL);
  nvtxMarkEx(&attributes);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  nvtxMarkEx(&attributes);
  attributes = attributes_of("too small a struct");
  attributes.size = 16;
  attributes.category = 3;
  nvtxMarkEx(&attributes);
  attributes = attributes_of("from a newer header");
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE + 16;
  nvtxMarkEx(&attributes);
  nvtxMarkA("bytes \xff\xfe that are no UTF-8");
  nvtxMarkA("");
  printf("%d ", nvtxRangePushA("open at the end"));
  printf("%d\n", nvtxRangePushA("so is this"));
}

static void names(void) {
  uint32_t tid = (uint32_t)syscall(SYS_gettid);
  printf("%u\n", tid);
  nvtxNameOsThreadA(tid, "first name");
  nvtxNameOsThreadW(tid, L"m\u00e4in");
  nvtxResourceAttributes_t resource = {0};
  resource.version = NVTX_VERSION;
  resource.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
  resource.identifierType = NVTX_RESOURCE_TYPE_GENERIC_POINTER;
  resource.identifier.ullValue = 0x1234;
  resource.messageType = NVTX_MESSAGE_TYPE_ASCII;
  resource.message.ascii = "a pool";
  nvtxDomainResourceDestroy(nvtxDomainResourceCreate(NULL, &resource));
  resource.identifierType = NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE;
  resource.identifier.ullValue = tid + 1;
  resource.message.ascii = "another thread";
  nvtxDomainResourceCreate(NULL, &resource);
  nvtxMarkA("done");
}

static void long_texts(void) {
  char* text = malloc(70001);
  memset(text, 'x', 70000);
  text[70000] = 0;
  nvtxMarkA(text);
  text[65535] = 0;
  nvtxMarkA(text);
  wchar_t* wide = malloc(2001 * sizeof *wide);
  for (int i = 0; i < 2000; ++i) wide[i] = L'\u4e16';
  wide[2000] = 0;
  nvtxMarkW(wide);
}

static void many_names(void) {
  char text[64];
  for (int i = 0; i < 20000; ++i) {
    snprintf(text, sizeof text, "step %d", i);
    nvtxRangePushA(text);
    nvtxRangePushA("always the same");
    nvtxRangePop();
    nvtxRangePop();
  }
}

static void many_strings(void) {
  char text[64];
  nvtxEventAttributes_t attributes = attributes_of(NULL);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  for (int i = 0; i < 70000; ++i) {
    snprintf(text, sizeof text, "string %d", i % 35000);
    attributes.message.registered = nvtxDomainRegisterStringA(NULL, text);
    nvtxMarkEx(&attributes);
  }
}

static void many_domains(void) {
  nvtxEventAttributes_t attributes = attributes_of("range");
  nvtxDomainHandle_t domains[100];
  char text[64];
  for (int i = 0; i < 100; ++i) {
    snprintf(text, sizeof text, "domain %d", i);
    domains[i] = nvtxDomainCreateA(text);
    nvtxDomainRangePushEx(domains[i], &attributes);
  }
  for (int i = 0; i < 100; ++i) nvtxDomainRangePop(domains[i]);
  for (int i = 0; i < 100; ++i) {
    if (nvtxDomainRangePop(domains[i]) >= 0) puts("open");
    if (nvtxDomainRangePushEx(domains[i], &attributes) != 0) puts("not at the top");
    if (nvtxDomainRangePop(domains[i]) != 0) puts("not at the top");
  }
}

static nvtxRangeId_t crossing[8];

static void* thread_main(void* argument) {
  int number = (int)(long)argument;
  char text[64];
  for (int i = 0; i < 1000; ++i) {
    snprintf(text, sizeof text, "thread %d range %d", number, i % 10);
    nvtxRangePushA(text);
    nvtxRangePushA("inner");
    nvtxRangePop();
    nvtxRangePop();
  }
  nvtxRangeEnd(crossing[number]);
  return NULL;
}

static void threads(void) {
  pthread_t threads[8];
  for (long i = 0; i < 8; ++i) {
    crossing[i] = nvtxRangeStartA("from one thread to another");
    pthread_create(&threads[i], NULL, thread_main, (void*)i);
  }
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
}

enum { kRacers = 8, kRaces = 2000 };

static const void* won[kRacers][kRaces];

static void* race(void* argument) {
  long number = (long)argument;
  char text[64];
  for (int i = 0; i < kRaces; ++i) {
    snprintf(text, sizeof text, "raced for %d", i);
    won[number][i] = i % 2 == 0 ? (const void*)nvtxDomainRegisterStringA(NULL, text)
                                : (const void*)nvtxDomainCreateA(text);
    nvtxNameCategoryA((uint32_t)i, text);
  }
  return NULL;
}

// All threads register the same things at the same time, and get the same handles.
static void races(void) {
  pthread_t threads[kRacers];
  nvtxInitialize(NULL);
  for (long i = 0; i < kRacers; ++i) pthread_create(&threads[i], NULL, race, (void*)i);
  for (int i = 0; i < kRacers; ++i) pthread_join(threads[i], NULL);
  int same = 1;
  for (int i = 1; i < kRacers; ++i) same = same && memcmp(won[0], won[i], sizeof won[0]) == 0;
  printf("%d\n", same);
}

static void forks(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("before the fork");
  nvtxNameCategoryA(3, "named before the fork");
  nvtxEventAttributes_t attributes = attributes_of(NULL);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered before");
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxRangePushA("parent's");
  if (fork() == 0) {
    nvtxRangePushA("child's");
    nvtxRangePop();
    printf("%d\n", nvtxRangePop());  // the parent's, which is not in the child's log
    fflush(stdout);
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxDomainRangePop(domain);
    nvtxDomainRangePop(domain);
    _exit(0);
  }
  wait(NULL);
  nvtxRangePop();
  nvtxDomainRangePop(domain);
}

static void windows(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("lib");
  nvtxEventAttributes_t attributes = attributes_of(NULL);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "capture");
  nvtxEventAttributes_t plain = attributes_of("capture");
  nvtxRangePushA("outside");
  nvtxMarkA("before");
  nvtxRangePushA("capture");  // 1: a plain string of the default domain
  nvtxMarkA("in 1");
  nvtxRangePushA("within");
  nvtxRangePop();
  nvtxRangePop();
  nvtxMarkA("between 1 and 2");
  nvtxDomainRangePushEx(domain, &attributes);  // 2: a registered string of another domain
  nvtxMarkA("in 2");
  nvtxDomainRangePop(domain);
  nvtxMarkA("between 2 and 3");
  nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &plain);  // 3: from start to end
  nvtxMarkA("in 3");
  nvtxDomainRangeEnd(domain, id);
  nvtxMarkA("after 3");
  nvtxRangePushA("capture");  // 4: nested
  nvtxRangePushA("capture");
  nvtxRangePop();
  nvtxMarkA("still in 4");
  nvtxRangePop();
  nvtxMarkA("after");
  nvtxRangePop();
}

static const struct {
  const char* name;
  void (*run)(void);
} scenarios[] = {
    {"forms", forms},           {"domains", domains},           {"registered", registered},
    {"attributes", attributes}, {"odd", odd},                   {"names", names},
    {"long_texts", long_texts}, {"many_names", many_names},     {"many_strings", many_strings},
    {"threads", threads},       {"many_domains", many_domains}, {"forks", forks},
    {"windows", windows},       {"races", races},
};

int main(int count, char** arguments) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; ++i) {
    if (count == 2 && strcmp(arguments[1], scenarios[i].name) == 0) {
      scenarios[i].run();
      return 0;
    }
  }
  return 2;
}
