// libwarpline_agent: records what a program does, from within. A plain C ABI.
//
// The library acts in two ways. Injected: the environment names it (NVTX_INJECTION64_PATH) and a
// session's folder (WARPLINE_SESSION); NVTX loads it at the program's first NVTX call. In process:
// a profiler in the same process loads it and calls wl_agent_attach. It never prints, never
// throws, and never changes the program's signals.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WL_AGENT_ABI_VERSION 1

// The version of this header that the library was built with. Any thread.
int32_t wl_agent_abi_version(void);

// Attach this process to the session in a folder, whose agent.conf and control page exist.
// Returns 0, or an errno value. Attaching to the session that is attached is 0 and does nothing;
// to another one while one is attached is EBUSY. Any thread.
int32_t wl_agent_attach(const char* session_folder);

// Leave the session: its logs are closed, and a later attach may begin another. Returns 0, or
// ENOTCONN when none is attached. Records of other threads that are being written at this moment
// are completed. Any thread.
int32_t wl_agent_detach(void);

// Open and close a capture range of this process, as cudaProfilerStart and cudaProfilerStop do.
// They count: a range in a range changes nothing. No effect without a session. Any thread.
void wl_agent_window_begin(void);
void wl_agent_window_end(void);

// Trace CUDA in this process, if its session asks for CUDA: at once when the program has initialised
// the driver, or else from the moment it does. (Programs started with CUDA_INJECTION64_PATH need
// no call.) Returns 0, ENOTCONN without a session, ENOTSUP when the session does not ask or CUPTI
// cannot be used; the recording then says why. Any thread.
int32_t wl_agent_cuda_attach(void);

// Stop tracing CUDA and write down what it still holds; another profiler may take its place. Call
// it before wl_agent_detach, not from within a CUDA callback. Any thread.
void wl_agent_cuda_detach(void);

// Number of NVTX instances (one per library that brings NVTX) bound to the agent in this process.
uint64_t wl_agent_nvtx_bound(void);

// Number of events that this process has recorded in the session attached.
uint64_t wl_agent_records(void);

// What the agent's part of recording takes on this machine, in ns: WL_COSTS numbers, by WL_COST_...
// It records events of its own into the session attached, which is best one made for it, and
// replaces the choice of CUDA calls: not for a process that is being profiled. One thread.
void wl_agent_measure(double* ns);

#define WL_COST_RANGE 0  // opening and closing an NVTX range
#define WL_COST_MARK 1   // an NVTX mark
#define WL_COST_CALL 2   // a CUDA call, without what CUPTI takes to tell of it
#define WL_COST_FRAME 3  // one frame of a call chain
#define WL_COSTS 4

#ifdef __cplusplus
}
#endif
