// libwarpline_agent: records a program from within. A plain C ABI.
//
// The library works in two ways. Injected: the environment names it (NVTX_INJECTION64_PATH) and a
// session directory (WARPLINE_SESSION); NVTX loads it at the program's first NVTX call. In process:
// a profiler in the same process loads it and calls wl_agent_attach. It never prints, never
// throws, and changes no signal of the program, but SIGURG where a session asks for CPU samples by timers.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WL_AGENT_ABI_VERSION 1

// The version of this header at the library's build. Any thread.
int32_t wl_agent_abi_version(void);

// Attach this process to the session in a directory with agent.conf and the control page.
// Returns 0 or an errno value. Attaching to the current session returns 0 and does nothing;
// attaching to a second session is EBUSY. What a page announces that this process stands by for
// waits until wl_agent_detach. Any thread.
int32_t wl_agent_attach(const char* session_folder);

// Leave the session: its logs are closed, and a later attach can join another. Returns 0, or
// ENOTCONN if none is attached, or one that was announced, whose page says when to leave it. Records that other threads are writing at this moment
// are completed. Any thread.
int32_t wl_agent_detach(void);

// Stand by for the sessions that the page in a directory announces, one after another: see StandingPage of
// warpline_raw.h. It takes the place of the directory that this process stood by for before. While a session
// records NVTX, instances are bound as by wl_agent_nvtx_attach, and released afterwards. Returns 0 or an errno
// value; EBUSY while a session is attached. Any thread.
int32_t wl_agent_stand(const char* folder);

// Whether a session that was announced records this process, or is about to. Any thread.
int32_t wl_agent_is_recorded(void);

// Open and close a capture range of this process, as cudaProfilerStart and cudaProfilerStop do.
// They nest: only the outermost range counts. No effect without a session. Any thread.
void wl_agent_window_begin(void);
void wl_agent_window_end(void);

// Trace CUDA in this process, if its session requests it: immediately if the program has initialized
// the driver, otherwise as soon as it does. (Programs started with CUDA_INJECTION64_PATH need
// no call.) Returns 0, ENOTCONN without a session, ENOTSUP if CUDA is not requested or CUPTI
// cannot be used; the recording then has the reason. Any thread.
int32_t wl_agent_cuda_attach(void);

// Stop tracing CUDA and flush its records; another profiler may then use CUPTI. Call
// it before wl_agent_detach, not from within a CUDA callback. Any thread.
void wl_agent_cuda_detach(void);

// Bind the NVTX instances of the libraries that are loaded now to the agent, also those that have looked for a
// tool and found none. Those of another tool are left alone. Waits for the lock of the loader. Any thread.
void wl_agent_nvtx_attach(void);

// Number of NVTX instances (one per library with NVTX) bound to the agent in this process.
uint64_t wl_agent_nvtx_bound(void);

// Number of events that this process has recorded in its session.
uint64_t wl_agent_records(void);

// Measure the agent's overhead on this machine, in ns: WL_COSTS numbers, indexed by WL_COST_...
// It records events of its own in the attached session, which should be a temporary one, and
// replaces the choice of CUDA calls: not for a profiled process. One thread.
void wl_agent_measure(double* ns);

#define WL_COST_RANGE 0  // opening and closing an NVTX range
#define WL_COST_MARK 1   // an NVTX mark
#define WL_COST_CALL 2   // a CUDA API call, without CUPTI's own overhead
#define WL_COST_FRAME 3  // one frame of a backtrace
#define WL_COSTS 4

// What Python code in the program records, with fewer steps than NVTX takes: ranges of this thread in
// an NVTX domain, beside those of NVTX. None of these waits or calls back, so the caller may hold
// Python's lock. Any thread.

// Returns the handle of a domain and a name, good until the process ends, also in forks; NULL if out
// of memory. Each call keeps some memory. Attaches the process to the session that WARPLINE_SESSION
// names, if it is attached to none.
void* wl_python_name(const char* domain, const char* text);

// Opens a range; closes the innermost one of the name's domain. A sequence of 0 or more is PyTorch's
// autograd number of the thread at this time: operators that are called in a range have the numbers
// from that at its begin to the one before that at its end. NULL does nothing.
void wl_python_push(void* name, int64_t sequence);
void wl_python_pop(void* name, int64_t sequence);

// Returns CPython's PyMethodDef of push and of pop, with a member of zeros after them: functions of Python
// that take the same, and take a third of the time that ctypes does. NULL without CPython's symbols.
const void* wl_python_methods(void);

// Whether a range would be recorded now, or looked at: it may be the one that a capture range or a step
// begins with, by the name that the user gave. A range need not be pushed otherwise; one that has been
// must be popped.
int wl_python_is_recording(void);

// What libwarpline_preload and libwarpline_shim tell: programs are started with one of them.

// The calling thread begins: what the agent keeps of each thread gets its memory now, so that later no event
// needs any, which may come from within malloc.
void wl_agent_thread_begin(void);

// Calls of the C library, which libwarpline_shim measures.

// One call: times of CLOCK_MONOTONIC in ns, what it returned, who called it (NULL: not known), its place
// in the names that the shim has given, and whether the thread is known by wl_agent_thread_begin.
typedef struct wl_os_call {
  int64_t start_ns;
  int64_t end_ns;
  int64_t return_value;
  const void* caller;
  uint32_t number;
  int32_t is_thread_known;
} wl_os_call;
typedef void (*wl_os_call_function)(const wl_os_call* call);

// Returns what records a call, and the shortest that it is to be given; NULL if the session of this process
// records none. `names` stay where they are. The function may be called by any thread at any time, also
// in a handler of a signal; errno stays as it is. Call it once, while the process has one thread.
wl_os_call_function wl_agent_os_calls(const char* const* names, uint32_t count,
                                      int64_t* threshold_ns);

#ifdef __cplusplus
}
#endif
