// Records ranges for a long time and watches its own memory.
//
//     long_run COUNT
//
// Prints, at tenths of the way, the ranges so far, the private memory and the nanoseconds per
// range since the last line. Shared mappings (the logs) are the kernel's to write out and to drop,
// and are printed apart.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

// Returns a line of /proc/self/status in kB.
static long memory_kb(const char* name) {
  char line[256];
  long kb = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) kb = atol(line + strlen(name));
  }
  if (file != NULL) fclose(file);
  return kb;
}

static void run(long first, long count) {
  char name[32];
  for (long i = first; i < first + count; ++i) {
    // Steps with names of their own, as programs have them, and a name that is always the same.
    if (i % 1000 == 0) {
      snprintf(name, sizeof name, "step %ld", i / 1000 % 5000);
      nvtxRangePushA(name);
    } else {
      nvtxRangePushA("layer");
    }
    nvtxRangePop();
  }
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 10000000;
  for (int part = 0; part < 10; ++part) {
    const double begin = now_ns();
    run(count / 10 * part, count / 10);
    const double ns = (now_ns() - begin) / (count / 10);
    printf("%ld ranges  private %ld kB  shared %ld kB  %.1f ns\n", count / 10 * (part + 1),
           memory_kb("RssAnon:"), memory_kb("RssFile:") + memory_kb("RssShmem:"), ns);
    fflush(stdout);
  }
  return 0;
}
