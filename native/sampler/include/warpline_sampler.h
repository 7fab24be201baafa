/* libwarpline_sampler: the CPU samples and context switches of a program, taken from outside of it.
 *
 * It is loaded by a process of its own, never by the program. One sampler at a time in a process; every
 * function is to be called by the same thread. */
#ifndef WARPLINE_SAMPLER_H
#define WARPLINE_SAMPLER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WL_SAMPLER_API __attribute__((visibility("default")))
#define WL_SAMPLER_ABI_VERSION 4

/* How the callers of a sampled function are found. */
#define WL_SAMPLER_NO_STACKS 0
#define WL_SAMPLER_FRAME_POINTERS 1
#define WL_SAMPLER_DWARF 2

/* What is read of Python. */
#define WL_SAMPLER_PYTHON_SAMPLES 1 /* the stack of each thread, whether it runs or waits */
#define WL_SAMPLER_PYTHON_GIL 2     /* who holds the GIL, and who waits for it */

typedef struct wl_sampler_options {
  const char *folder;  /* the session's directory */
  int32_t pid;         /* a process that will execute the program, or the calling one for a trial */
  int32_t backtrace;   /* WL_SAMPLER_... */
  int64_t period_ns;   /* CPU time between samples; 0: no samples */
  int32_t has_switches; /* 1: record context switches */
  int32_t python;       /* WL_SAMPLER_PYTHON_..., added up */
  int64_t python_period_ns; /* time between looks at Python's threads */
  const int32_t *running;  /* processes that run already, instead of pid: they, and all that they have started */
  int32_t running_count;   /* 0: none */
  int32_t reserved;
} wl_sampler_options;

/* What was done; counts are of the whole run. */
typedef struct wl_sampler_counts {
  int64_t samples;
  int64_t incomplete; /* samples whose outermost callers were not found */
  int64_t switches;
  int64_t lost;       /* records that the kernel dropped because this process came late */
  int64_t cpu_ns;     /* of this process */
  int32_t has_kernel; /* 1: time in the kernel is sampled, too */
  int32_t reserved;
  int64_t python_looks;     /* at all threads of Python */
  int64_t python_stacks;
  int64_t python_failed;    /* stacks that could not be read */
  int64_t python_cut;       /* stacks without their outer frames */
  int64_t python_unsettled; /* stacks that are perhaps not of one moment */
  int64_t python_samples;   /* samples whose native stack ran Python */
  int64_t python_unmatched; /* those without a Python stack: none that was read fitted them */
} wl_sampler_counts;

WL_SAMPLER_API int32_t wl_sampler_abi_version(void);

/* Tries whether a process may be sampled, without sampling it. Returns 0, or a number of errno. */
WL_SAMPLER_API int32_t wl_sampler_try(const wl_sampler_options *options);

/* Prepares to sample a process, its threads and children from its next exec on, or begins to sample those that
 * run. Returns 0, or a number of errno: EACCES or EPERM without the right to, ESRCH if none runs. */
WL_SAMPLER_API int32_t wl_sampler_open(const wl_sampler_options *options);

/* Samples until a file can be read or was closed at its other end, such as a socket. */
WL_SAMPLER_API void wl_sampler_run(int32_t until);

/* Writes what is left, and gives everything back. */
WL_SAMPLER_API void wl_sampler_close(wl_sampler_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
