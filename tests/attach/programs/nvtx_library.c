// What NVTX was before version 3: a library whose functions look for a tool at their first call. Tables and
// function pointers lie as in NVIDIA's libnvToolsExt.so.1.
#include <stddef.h>

typedef void (*Function)(void);

enum { kFunctions = 63 };
static Function functions_of_all[kFunctions];  // from the last one of the last module
static Function *sync_table[8], *core2_table[16], *cudart_table[8], *opencl_table[16], *cuda_table[10];
static Function *core_table[17];
static Function **tables[] = {core_table, cuda_table, opencl_table, cudart_table, core2_table, sync_table};

static void look(void) {
  for (int i = 0; i < kFunctions; ++i) functions_of_all[i] = NULL;
}

__attribute__((constructor)) static void begin(void) {
  static const int counts[] = {15, 8, 14, 6, 14, 6};
  static const int order[] = {0, 4, 5, 2, 1, 3};
  Function *place = functions_of_all + kFunctions;
  for (int k = 0; k < 6; ++k) {
    for (int i = 1; i <= counts[order[k]]; ++i) tables[order[k]][i] = --place;
  }
  for (int i = 0; i < kFunctions; ++i) functions_of_all[i] = look;
}

enum { kPushA = 9, kPop = 11 };
static Function function_at(int at) {
  Function *place = tables[0][at];
  if (*place == look) look();
  return *place;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT int use(const char *name) {
  const Function push = function_at(kPushA), pop = function_at(kPop);
  if (push != NULL) ((int (*)(const char *))push)(name);
  if (pop != NULL) ((int (*)(void))pop)();
  return 0;
}
EXPORT int functions(const char *text) {
  int count = 0;
  for (int i = 0; i < kFunctions; ++i) count += functions_of_all[i] != NULL;
  return text == NULL ? -1 : count;
}
