// Plays an instance of NVTX itself, without NVIDIA's headers: whole, small and broken ones.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef void (*Function)(void);
typedef Function** Table;

enum { kModules = 6, kFunctions = 16 };
static Function functions[kModules + 1][kFunctions];
static Function* places[kModules + 1][kFunctions];
static unsigned int table_size = kFunctions;
static int has_core2 = 1;
static uint32_t tool_version;

static void untouched(void) {}

static int get_table(int module, Table* table, unsigned int* size) {
  if (module < 1 || module > kModules || (module == 5 && !has_core2)) return 0;
  for (int i = 0; i < kFunctions; ++i) places[module][i] = &functions[module][i];
  places[module][0] = NULL;
  *table = places[module];
  *size = table_size;
  return 1;
}

static struct {
  size_t bytes;
  int (*get_table)(int, Table*, unsigned int*);
} callbacks = {sizeof callbacks, get_table};

static void set_version(uint32_t version) { tool_version = version; }

static struct {
  size_t bytes;
  uint32_t version;
  uint32_t reserved;
  void (*set_version)(uint32_t);
} version = {sizeof version, 3, 0, set_version};

static const void* get_export(uint32_t id) {
  return id == 1 ? (const void*)&callbacks : id == 3 ? (const void*)&version : NULL;
}
static const void* get_nothing(uint32_t id) {
  (void)id;
  return NULL;
}

typedef int (*Initialize)(const void* (*)(uint32_t));
static Initialize initialize;
static int (*initialize_extension)(void*);

static void cuda(void) {
  printf("%d ", initialize(get_export));
  printf("%u\n", tool_version);
  typedef void (*NameNumber)(int, const char*);
  typedef void (*NamePointer)(void*, const char*);
  typedef void (*NamePointerWide)(void*, const wchar_t*);
  ((NameNumber)functions[2][1])(0, "driver's device");
  ((NamePointer)functions[2][3])((void*)0x10, "context");
  ((NamePointerWide)functions[2][6])((void*)0x20, L"stream of the driver \u00e9");
  ((NamePointer)functions[2][7])((void*)0x30, "event of the driver");
  ((NameNumber)functions[4][1])(1, "device");
  ((NamePointer)functions[4][3])((void*)0x40, "stream");
  ((NamePointerWide)functions[4][4])((void*)0x48, L"wide stream");
  ((NamePointer)functions[4][5])((void*)0x50, "event");
  ((NamePointer)functions[4][5])((void*)0x50, NULL);
}

static void small(void) {
  table_size = 3;
  for (int i = 0; i < kFunctions; ++i) functions[1][i] = untouched;
  printf("%d ", initialize(get_export));
  int changed = 0;
  for (int i = 0; i < kFunctions; ++i) changed += functions[1][i] != untouched;
  printf("%d\n", changed);  // the two places of a table of three, whose first is not used
}

static void broken(void) {
  printf("%d ", initialize(NULL));
  printf("%d ", initialize(get_nothing));
  callbacks.bytes = 4;
  printf("%d ", initialize(get_export));
  callbacks.bytes = sizeof callbacks;
  has_core2 = 0;
  printf("%d ", initialize(get_export));
  printf("%d ", initialize_extension(NULL));
  struct {
    uint16_t nvtx, bytes, module, compat_id;
    size_t segments;
    void* segment;
    void* get_export;
    const void* info;
  } module = {3, sizeof module, 2, 0x0104, 0, NULL, NULL, NULL};
  printf("%d ", initialize_extension(&module));
  struct {
    size_t id, slots;
    intptr_t* functions;
  } segment = {0, 2, (intptr_t[4]){0}};  // as the first headers with payloads had it
  module.segments = 1;
  module.segment = &segment;
  module.compat_id = 0x0103;
  printf("%d ", initialize_extension(&module));
  printf("%d %d\n", segment.functions[1] != 0, segment.functions[2] == 0);
}

int main(int count, char** arguments) {
  void* agent = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
  if (count != 2 || agent == NULL) return 2;
  initialize = (Initialize)dlsym(agent, "InitializeInjectionNvtx2");
  initialize_extension = (int (*)(void*))dlsym(agent, "InitializeInjectionNvtxExtension");
  if (strcmp(arguments[1], "cuda") == 0) cuda();
  if (strcmp(arguments[1], "small") == 0) small();
  if (strcmp(arguments[1], "broken") == 0) broken();
  return 0;
}
