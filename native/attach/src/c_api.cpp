#include "warpline_attach.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "tracee.h"
#if defined(__x86_64__)
#include "injection.h"
#endif

namespace {

// Another program waits for this process: it runs soon, where that is allowed, and sleeps no longer than it asks.
void hurry() noexcept {
  setpriority(PRIO_PROCESS, 0, -20);
  prctl(PR_SET_TIMERSLACK, 1);
}

// In memory that both processes see.
struct Shared {
  wl_attach_outcome outcome;
  int error;
};

template <class Function>
[[noreturn]] void run_alone(Shared& shared, const Function& function) noexcept {
  setpgid(0, 0);  // no session: the scheduler may treat each as one program among many
  hurry();
  try {
    function(shared);
    shared.error = 0;
  } catch (const std::exception&) {
    shared.error = ENOMEM;
  }
  _exit(0);
}

// A process of its own traces: what ends ours, such as Ctrl-C or SIGKILL, must not end it while the other program
// runs code of ours. What it traces is free when it ends. Whoever waits for children here does not see its stops.
template <class Function>
int in_own_process(wl_attach_outcome& outcome, const Function& function) noexcept {
  void* room = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return errno;
  auto& shared = *static_cast<Shared*>(room);
  shared.error = ECHILD;  // unless it comes to its end
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = fork();
  if (child == 0) run_alone(shared, function);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  const int error = child < 0 ? fork_error : shared.error;
  outcome = shared.outcome;
  munmap(room, sizeof(Shared));
  return error;
}

}  // namespace

int32_t wl_attach_abi_version(void) { return WL_ATTACH_ABI_VERSION; }

#if defined(__x86_64__)

int32_t wl_attach_try(int32_t pid) {
  wl_attach_outcome outcome{};
  const int error = in_own_process(outcome, [&](Shared& shared) {
    shared.outcome.error = warpline::attach::Tracee(pid, pid).seize();
  });
  return error != 0 ? error : outcome.error;
}

int32_t wl_attach_inject(const wl_attach_call* call, wl_attach_outcome* outcome) {
  *outcome = {};
  const bool fits = std::strlen(call->library) < warpline::attach::kPathBytes &&
                    std::strlen(call->argument) < warpline::attach::kPathBytes &&
                    std::strlen(call->function) < warpline::attach::kTextBytes;
  const int error = !fits ? ENAMETOOLONG : in_own_process(*outcome, [&](Shared& shared) {
    warpline::attach::Injection(*call, shared.outcome).run();
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
