/* libwarpline_attach: loads a library into a process that runs already, and calls a function of it.
 *
 * Linux on x86-64 with glibc only; elsewhere every call is refused. It is loaded by our own process, which it
 * forks for each call. */
#ifndef WARPLINE_ATTACH_H
#define WARPLINE_ATTACH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WL_ATTACH_API __attribute__((visibility("default")))
#define WL_ATTACH_ABI_VERSION 1

/* What came of a call. */
#define WL_ATTACH_CALLED 0
#define WL_ATTACH_UNSUPPORTED 1  /* this machine is not x86-64 */
#define WL_ATTACH_REFUSED 2      /* the kernel does not allow it; `error` says why */
#define WL_ATTACH_ENDED 3        /* the process ended */
#define WL_ATTACH_STOPPED 4      /* the process is stopped */
#define WL_ATTACH_NO_LIBRARY 5   /* it has no glibc with dlopen and threads; `text`: what is missing */
#define WL_ATTACH_NO_MOMENT 6    /* no thread was at a safe place in time */
#define WL_ATTACH_NO_MEMORY 7    /* no memory for the call: `error` */
#define WL_ATTACH_NO_THREAD 8    /* no thread for the call: `error` */
#define WL_ATTACH_NOT_LOADED 9   /* dlopen failed: `text` */
#define WL_ATTACH_NO_FUNCTION 10 /* the library lacks the function: `text` */
#define WL_ATTACH_NOT_CREATED 11 /* making the thread takes longer; the program goes on by itself */
#define WL_ATTACH_NOT_RETURNED 12 /* the call takes longer; it goes on in a thread of its own */

typedef struct wl_attach_call {
  const char *library;  /* an absolute path, as the process sees it */
  const char *function; /* int32_t function(const char *argument) */
  const char *argument;
  int64_t timeout_ns;
  int32_t pid;
  int32_t reserved;
} wl_attach_call;

typedef struct wl_attach_outcome {
  int32_t status;
  int32_t error;    /* a number of errno, or 0 */
  int32_t result;   /* of the function */
  int32_t thread;   /* that was stopped to make another */
  int32_t attempts; /* threads that were stopped, one after the other, until one was at a safe place */
  int32_t reserved;
  int64_t stall_ns; /* from asking that thread to stop until it went on */
  int64_t queued_ns; /* of that, the thread could run but other threads had the processors */
  int64_t longest_look_ns; /* the same of one that was at no safe place; 0: there was none */
  int64_t call_ns;  /* from the new thread's start until the function had returned */
  char text[512];
} wl_attach_outcome;

WL_ATTACH_API int32_t wl_attach_abi_version(void);

/* Whether a process may be attached to, without stopping it: 0, or a number of errno. */
WL_ATTACH_API int32_t wl_attach_try(int32_t pid);

/* Loads the library and calls the function, in a thread of its own. Returns the status. */
WL_ATTACH_API int32_t wl_attach_inject(const wl_attach_call *call, wl_attach_outcome *outcome);

#ifdef __cplusplus
}
#endif
#endif
