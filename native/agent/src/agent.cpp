// The C ABI of warpline_agent.h.
#include "warpline_agent.h"

#include <cerrno>

#include "cpu_sampling/sampling.h"
#include "nvtx/binding.h"
#include "session/collector.h"
#include "session/process.h"
#include "session/standing.h"
#include "session/thread_log.h"
#include "stack/walk.h"

#define WL_EXPORT extern "C" __attribute__((visibility("default")))

using namespace warpline::agent;

WL_EXPORT int32_t wl_agent_abi_version(void) { return WL_AGENT_ABI_VERSION; }
WL_EXPORT int32_t wl_agent_attach(const char* session_folder) {
  stand_by_environment();  // the program may set another folder in its environment meanwhile
  follow_if_announced();   // to leave what is over
  const bool did_before = g_records_itself.exchange(true);
  const int error = attach(session_folder);
  if (error != 0) g_records_itself.store(did_before);
  return error;
}
WL_EXPORT int32_t wl_agent_detach(void) {
  if (is_in_announced_session()) return ENOTCONN;
  end_collectors();  // records still in CUPTI belong to this session
  const int error = detach();
  if (error == 0) close_logs();
  g_records_itself.store(false);
  return error;
}
WL_EXPORT int32_t wl_agent_is_recorded(void) {
  follow_if_announced();
  return is_in_announced_session() || is_announced();
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
