// Data that are those of an instance of NVTX but for one place each.
#include <nvtx3/nvToolsExt.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kDecoys = 13 };

// As long as a real one, in the part of the data that comes from the file.
static union Decoy {
  nvtxGlobals_t globals;
  uintptr_t words[sizeof(nvtxGlobals_t) / sizeof(uintptr_t)];
} decoys[kDecoys] = {{.globals = {.initState = NVTX_INIT_STATE_COMPLETE}}};
static union Decoy before[kDecoys];

static const size_t kTables = offsetof(nvtxGlobals_t, functionTable_CORE) / sizeof(uintptr_t);
static const size_t kFunctions = offsetof(nvtxGlobals_t, nvtxMarkEx_impl_fnptr) / sizeof(uintptr_t);

// An instance that has found no tool.
static void make(union Decoy *decoy) {
  static const int counts[] = {15, 8, 14, 6, 15, 6};
  decoy->globals = nvtxGlobals_v3;
  decoy->globals.initState = NVTX_INIT_STATE_COMPLETE;
  uintptr_t *table = decoy->words + kTables;
  uintptr_t *function = decoy->words + kFunctions;
  memset(function, 0, (kTables - kFunctions) * sizeof *function);
  for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k) {
    for (int i = 1; i <= counts[k]; ++i) table[i] = (uintptr_t)function++;
    table += counts[k] + 2;
  }
}

__attribute__((constructor)) static void make_all(void) {
  const size_t last = sizeof(union Decoy) / sizeof(uintptr_t) - 1;
  for (int i = 0; i < kDecoys; ++i) make(&decoys[i]);
  // The first one is right.
  decoys[1].words[0] = 3;                                    // a state that there is not
  decoys[2].words[0] |= (uintptr_t)1 << 40;                  // nothing is there
  decoys[3].words[1] = 24;                                   // another size
  decoys[4].words[2] = (uintptr_t)abort;                     // another module's function
  decoys[5].words[2] = (uintptr_t)&decoys[5];                // no code
  decoys[6].words[4] = 4;                                    // another version
  decoys[7].words[5] = (uintptr_t)malloc(1);
  decoys[8].words[kTables] = 1;                              // a table begins and ends with null
  decoys[9].words[last] = (uintptr_t)&decoys[9];
  decoys[10].words[kTables + 3] += sizeof(uintptr_t);        // the place of another function
  decoys[11].words[last - 1] = (uintptr_t)&decoys[10];       // a place elsewhere
  decoys[12].words[kFunctions + 9] = (uintptr_t)abort;       // somebody's function
  memcpy(before, decoys, sizeof before);
}

// How many words of the right one were changed; and of all others.
__attribute__((visibility("default"))) int changed(const char *which) {
  const int is_first = strcmp(which, "right") == 0;
  const int end = is_first ? 1 : kDecoys;
  int count = 0;
  for (int i = is_first ? 0 : 1; i < end; ++i) {
    for (size_t k = 0; k < sizeof(union Decoy) / sizeof(uintptr_t); ++k) {
      count += decoys[i].words[k] != before[i].words[k];
    }
  }
  return count;
}
