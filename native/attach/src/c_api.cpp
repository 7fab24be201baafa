#include "warpline_attach.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>

#include "tracee.h"
#if defined(__x86_64__)
#include "injection.h"
#endif

namespace {

// Another program waits for this thread: it runs soon, where that is allowed, and sleeps no longer than it asks.
void hurry() noexcept {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -20);
  prctl(PR_SET_TIMERSLACK, 1);
}

// A tracer is a thread, and what it traces is freed when it ends. It takes no signals: one that ends our
// process must wait until the other process is as it was.
template <class Function>
int in_own_thread(const Function& function) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  try {
    std::thread([&] {
      try {
        hurry();
        function();
      } catch (const std::exception&) {
        error = ENOMEM;
      }
    }).join();
  } catch (const std::exception&) {
    error = EAGAIN;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace

int32_t wl_attach_abi_version(void) { return WL_ATTACH_ABI_VERSION; }

#if defined(__x86_64__)

int32_t wl_attach_try(int32_t pid) {
  int found = 0;
  const int error = in_own_thread([&] { found = warpline::attach::Tracee(pid, pid).seize(); });
  return error != 0 ? error : found;
}

int32_t wl_attach_inject(const wl_attach_call* call, wl_attach_outcome* outcome) {
  *outcome = {};
  const bool fits = std::strlen(call->library) < warpline::attach::kPathBytes &&
                    std::strlen(call->argument) < warpline::attach::kPathBytes &&
                    std::strlen(call->function) < warpline::attach::kTextBytes;
  const int error = !fits ? ENAMETOOLONG : in_own_thread([&] {
    warpline::attach::Injection(*call, *outcome).run();
  });
  if (error != 0) {
    outcome->status = WL_ATTACH_REFUSED;
    outcome->error = error;
  }
  return outcome->status;
}

#else

int32_t wl_attach_try(int32_t) { return ENOSYS; }

int32_t wl_attach_inject(const wl_attach_call*, wl_attach_outcome* outcome) {
  *outcome = {};
  outcome->status = WL_ATTACH_UNSUPPORTED;
  return outcome->status;
}

#endif
