#include "tracee.h"

#if defined(__x86_64__)

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "blocked_place.h"

namespace warpline::attach {
namespace {

constexpr int kGetRseqConfiguration = 0x420f;  // PTRACE_GET_RSEQ_CONFIGURATION
constexpr int kEventStop = 128;  // PTRACE_EVENT_STOP
constexpr int kLooksAtOnce = 50;  // most stops come within microseconds
constexpr std::int64_t kWaitNs = 10'000;

void* as_pointer(std::uint64_t value) { return reinterpret_cast<void*>(value); }

}  // namespace

std::int64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void pause_ns(std::int64_t duration_ns) noexcept {
  const timespec duration{duration_ns / 1'000'000'000, duration_ns % 1'000'000'000};
  nanosleep(&duration, nullptr);
}

int Tracee::seize() noexcept {
  return ptrace(PTRACE_SEIZE, tid_, nullptr, as_pointer(PTRACE_O_TRACESYSGOOD)) == 0 ? 0 : errno;
}

bool Tracee::detach() noexcept { return ptrace(PTRACE_DETACH, tid_, nullptr, nullptr) == 0; }

bool Tracee::go_on(__ptrace_request how, int signal) noexcept {
  if (how != PTRACE_LISTEN) how_ = how;
  return ptrace(how, tid_, nullptr, as_pointer(static_cast<std::uint64_t>(signal))) == 0;
}

bool Tracee::read_registers(user_regs_struct& registers) noexcept {
  return ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) == 0;
}

bool Tracee::write_registers(const user_regs_struct& registers) noexcept {
  return ptrace(PTRACE_SETREGS, tid_, nullptr, &registers) == 0;
}

bool Tracee::read_signal_mask(std::uint64_t& mask) noexcept {
  return ptrace(PTRACE_GETSIGMASK, tid_, as_pointer(sizeof mask), &mask) == 0;
}

bool Tracee::write_signal_mask(std::uint64_t mask) noexcept {
  return ptrace(PTRACE_SETSIGMASK, tid_, as_pointer(sizeof mask), &mask) == 0;
}

bool Tracee::is_in_sequence(std::uint64_t instruction) noexcept {
  struct {
    std::uint64_t area;
    std::uint32_t bytes, signature, flags, pad;
  } configuration{};
  const auto request = static_cast<__ptrace_request>(kGetRseqConfiguration);
  const long got = ptrace(request, tid_, as_pointer(sizeof configuration), &configuration);
  if (got <= 0 || configuration.area == 0) return false;
  constexpr std::uint64_t kDescriptor = 8;  // of struct rseq: the sequence that the thread is in
  struct {
    std::uint32_t version, flags;
    std::uint64_t begin, bytes;
  } sequence{};
  std::uint64_t at = 0;
  const auto read_all = [&](std::uint64_t address, void* room, std::size_t bytes) {
    return sampler::read_process(pid_, address, room, bytes) == bytes;
  };
  if (!read_all(configuration.area + kDescriptor, &at, sizeof at) || at == 0) return false;
  if (!read_all(at, &sequence, sizeof sequence)) return true;
  return instruction - sequence.begin < sequence.bytes;
}

bool Tracee::write_code(std::uint64_t address, const void* code, std::size_t bytes) noexcept {
  const auto* from = static_cast<const char*>(code);
  for (std::size_t done = 0; done < bytes; done += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + done, std::min<std::size_t>(8, bytes - done));
    if (ptrace(PTRACE_POKEDATA, tid_, as_pointer(address + done), as_pointer(word)) != 0) return false;
  }
  return true;
}

// Signals for the thread are passed on to it; while it makes calls for us they are blocked, except SIGSTOP.
Tracee::Stop Tracee::look() noexcept {
  for (;;) {
    siginfo_t info{};
    // The status of a process that ended is its parent's to take, which may be ours.
    const int options = WSTOPPED | WNOHANG | __WALL | __WNOTHREAD;
    if (waitid(P_PID, static_cast<id_t>(tid_), &info, options | WEXITED | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return Stop::kEnded;
    }
    if (info.si_pid == 0) return Stop::kLate;
    if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) return Stop::kEnded;
    info.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(tid_), &info, options) != 0 || info.si_pid == 0) continue;
    const int signal = info.si_status & 0xff;
    if (info.si_status >> 8 == kEventStop) {
      return signal == SIGTRAP ? Stop::kStopped : Stop::kProgramStopped;
    }
    if (signal == (SIGTRAP | 0x80)) return Stop::kCall;
    if (!go_on(how_, signal)) return Stop::kEnded;
  }
}

Tracee::Stop Tracee::wait(std::int64_t deadline_ns) noexcept {
  for (int round = 0;; ++round) {
    const Stop stop = look();
    if (stop != Stop::kLate || (deadline_ns != 0 && now_ns() >= deadline_ns)) return stop;
    if (round >= kLooksAtOnce) pause_ns(kWaitNs);
  }
}

Tracee::Stop Tracee::interrupt(std::int64_t deadline_ns) noexcept {
  if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) return Stop::kEnded;
  how_ = PTRACE_CONT;
  return settle(wait(deadline_ns));
}

Tracee::Stop Tracee::settle(Stop stop) noexcept {
  if (stop == Stop::kStopped || stop == Stop::kProgramStopped) repeat_cut_call();
  return stop;
}

// A signal for the thread was there already: whatever it cut short, it did so by itself.
bool Tracee::is_signalled() const noexcept {
  char path[64];
  char text[8192];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid_, tid_);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[bytes < 0 ? 0 : bytes] = '\0';
  const auto set_of = [&](const char* name) {
    const char* at = std::strstr(text, name);
    return at == nullptr ? 0 : std::strtoull(at + std::strlen(name), nullptr, 16);
  };
  return ((set_of("\nSigPnd:") | set_of("\nShdPnd:")) & ~set_of("\nSigBlk:")) != 0;
}

// The kernel itself repeats most calls, or continues them. Some, such as epoll_wait, fail when they are
// interrupted, even by a stop that no program sees.
void Tracee::repeat_cut_call() noexcept {
  user_regs_struct registers;
  if (!read_registers(registers)) return;
  const bool is_cut = static_cast<std::int64_t>(registers.orig_rax) >= 0 &&
                      static_cast<std::int64_t>(registers.rax) == -EINTR;
  if (!is_cut || is_signalled()) return;
  registers.rax = registers.orig_rax;
  registers.orig_rax = ~std::uint64_t{0};
  registers.rip -= 2;
  write_registers(registers);
}

Tracee::Stop Tracee::call_kernel(std::uint64_t instruction, std::uint64_t number,
                                 const std::uint64_t (&arguments)[6], std::int64_t& result) noexcept {
  user_regs_struct registers;
  if (!read_registers(registers)) return Stop::kEnded;
  registers.rip = instruction;
  registers.rax = number;
  registers.orig_rax = ~std::uint64_t{0};  // no call is to be repeated
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.r10 = arguments[3];
  registers.r8 = arguments[4];
  registers.r9 = arguments[5];
  if (!write_registers(registers)) return Stop::kEnded;
  for (int side = 0; side < 2; ++side) {  // its begin, its end
    Stop stop = Stop::kStopped;
    while (stop == Stop::kStopped) {  // also once when a stopped process was continued just now
      if (!go_on(PTRACE_SYSCALL, 0)) return Stop::kEnded;
      stop = wait(0);
    }
    if (stop != Stop::kCall) return stop;
  }
  if (!read_registers(registers)) return Stop::kEnded;
  result = static_cast<std::int64_t>(registers.rax);
  return Stop::kCall;
}

}  // namespace warpline::attach

#endif
