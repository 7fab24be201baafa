// The C ABI of warpline_agent.h.
#include "warpline_agent.h"

#include "cpu_sampling/sampling.h"
#include "nvtx/binding.h"
#include "session/collector.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "stack/walk.h"

#define WL_EXPORT extern "C" __attribute__((visibility("default")))

using namespace warpline::agent;

WL_EXPORT int32_t wl_agent_abi_version(void) { return WL_AGENT_ABI_VERSION; }
WL_EXPORT int32_t wl_agent_attach(const char* session_folder) { return attach(session_folder); }
WL_EXPORT int32_t wl_agent_detach(void) {
  end_collectors();  // records still in CUPTI belong to this session
  const int error = detach();
  if (error == 0) close_logs();
  return error;
}
WL_EXPORT void wl_agent_window_begin(void) {
  if (window_begin()) note_window(warpline::raw::Note::kSampleBegin, {});
}
WL_EXPORT void wl_agent_window_end(void) { window_end(); }
WL_EXPORT void wl_agent_thread_begin(void) {
  meet_thread();
  is_on_own_stack(0, 0);  // finds the stack, which needs memory, too
  sample_this_thread();
}
WL_EXPORT void wl_agent_nvtx_attach(void) {
  if (prepare_process()) nvtx::bind_loaded();
}
WL_EXPORT uint64_t wl_agent_nvtx_bound(void) { return nvtx_bound(); }
WL_EXPORT uint64_t wl_agent_records(void) { return recorded_events(); }

namespace {
// Runs at exit(), not if the process is killed or calls _exit.
__attribute__((destructor)) void end_in_order() {
  finish_cpu_samples();
  close_logs();
}
}  // namespace
