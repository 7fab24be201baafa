// Where CUDA tracing begins: the driver loads the agent and calls it, or a profiler in the process asks.
#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>

#include "cupti/start_up.h"
#include "cupti/tracing.h"
#include "machine/cuda_devices.h"
#include "session/process.h"
#include "session/standing.h"
#include "warpline_agent.h"

#define WL_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kInjected = 1;  // what the driver expects of an injection

// Lets the driver load the agent when the program initialises it.
int defer_to_driver() noexcept {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&defer_to_driver), &self) == 0) return ENOTSUP;
  return setenv("CUDA_INJECTION64_PATH", self.dli_fname, 1) == 0 ? 0 : ENOMEM;
}

}  // namespace

// Called by the CUDA driver, which found the agent in CUDA_INJECTION64_PATH, from within cuInit.
WL_EXPORT int InitializeInjection(void) {
  using namespace warpline::agent;
  if (!ensure_attached()) return kInjected;
  Session* session = g_session.load(std::memory_order_acquire);
  const bool is_wanted = session != nullptr && session->config.cuda.is_on;
  if (is_wanted) {
    add(session->control->cuda_bound);
    begin_cuda_tracing(false);
  } else {
    prepare_cuda_tracing(launch_folder());
  }
  cuda_comes();
  if (is_standing()) follow_by_thread(is_wanted);
  return kInjected;
}

WL_EXPORT int32_t wl_agent_cuda_attach(void) {
  using namespace warpline::agent;
  const Session* session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return ENOTCONN;
  if (!session->config.cuda.is_on) return ENOTSUP;
  if (!is_cuda_initialised()) return defer_to_driver();
  add(session->control->cuda_bound);
  return begin_cuda_tracing(true);
}

WL_EXPORT void wl_agent_cuda_detach(void) {
  if (!warpline::agent::is_in_announced_session()) warpline::agent::end_cuda_tracing();
}
