#include "injection.h"

#if defined(__x86_64__)

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "blocked_place.h"
#include "thread_order.h"

namespace warpline::attach {
namespace {

constexpr std::size_t kMostLooks = 16;            // at threads, between two pauses
constexpr std::int64_t kPauseNs = 1'000'000;
constexpr std::int64_t kStopNs = 500'000'000;     // until a thread that was asked to stop has done so
constexpr int kRoundsBeforeTimeouts = 3;
constexpr std::int64_t kReleaseNs = 1'000'000;    // between two looks of the new thread
constexpr std::uint64_t kThreadNumber = 720;      // of a thread of glibc, from its beginning
constexpr int kRestartBlock = -516;               // -ERESTART_RESTARTBLOCK
constexpr int kFirstRestart = -514;               // -ERESTARTNOHAND; -ERESTARTNOINTR, -ERESTARTSYS
constexpr int kLastRestart = -512;

template <class Value>
bool read_value(pid_t pid, std::uint64_t address, Value& value) {
  return sampler::read_process(pid, address, &value, sizeof value) == sizeof value;
}

bool write_bytes(pid_t pid, std::uint64_t address, const void* from, std::size_t bytes) {
  const iovec here{const_cast<void*>(from), bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  return process_vm_writev(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

// Whether a thread waits in a futex that is no lock within the C library: those use the simple operation on
// private futexes only.
bool is_waiting(const user_regs_struct& registers) {
  const auto operation = static_cast<std::uint32_t>(registers.rsi) & FUTEX_CMD_MASK;
  const bool is_private = (registers.rsi & FUTEX_PRIVATE_FLAG) != 0;
  return registers.orig_rax == SYS_futex &&
         (operation == FUTEX_WAIT_BITSET || (operation == FUTEX_WAIT && !is_private));
}

// Registers to go on with without the kernel, which would repeat a system call that was cut short.
SavedRegisters saved_of(const user_regs_struct& from) {
  SavedRegisters to{from.r15, from.r14, from.r13, from.r12, from.rbp, from.rbx, from.r11, from.r10, from.r9,
                    from.r8,  from.rax, from.rcx, from.rdx, from.rsi, from.rdi, from.eflags, from.rsp, from.rip};
  const auto result = static_cast<std::int64_t>(from.rax);
  if (static_cast<std::int64_t>(from.orig_rax) < 0) return to;
  if (result == kRestartBlock) to.rax = static_cast<std::uint64_t>(std::int64_t{-EINTR});
  if (result >= kFirstRestart && result <= kLastRestart) {
    to.rax = from.orig_rax;
    to.rip -= 2;
  }
  return to;
}

}  // namespace

std::int64_t Injection::end(std::int32_t status, std::int64_t error) {
  outcome_.status = status;
  outcome_.error = static_cast<std::int32_t>(error);
  return status;
}

void Injection::run() {
  begin_ns_ = now_ns();
  deadline_ns_ = begin_ns_ + call_.timeout_ns;
  if (!can_save_vectors()) {
    end(WL_ATTACH_UNSUPPORTED);
    return;
  }
  if (!read_program()) return;
  if (missing_ != nullptr) {
    end_without_library();
    return;
  }
  if (find_thread()) wait_for_call();
}

bool Injection::read_program() {
  if (!program_.read()) return end(WL_ATTACH_ENDED) == 0;
  if (program_.is_new() || missing_ != nullptr) missing_ = program_.find_functions(functions_);
  return true;
}

void Injection::end_without_library() {
  std::strncpy(outcome_.text, missing_, sizeof outcome_.text - 1);
  end(WL_ATTACH_NO_LIBRARY);
}

bool Injection::find_thread() {
  for (int round = 0;; ++round) {
    const std::vector<Candidate> candidates = candidates_of(call_.pid);
    std::size_t looks = 0;
    // Another program may have been executed meanwhile, and may not have loaded its libraries yet.
    for (std::size_t i = 0; i < candidates.size() && looks < kMostLooks && missing_ == nullptr; ++i) {
      // Not always the same ones.
      const Candidate& each = candidates[candidates.size() <= kMostLooks
                                             ? i
                                             : (i + static_cast<std::size_t>(round) * kMostLooks) % candidates.size()];
      if (each.disturbance == Disturbance::kTimeout && round < kRoundsBeforeTimeouts) continue;
      if (is_late_one(each.tid)) continue;
      ++looks;
      const Look look = look_at(each.tid);
      if (look != Look::kElsewhere) return look == Look::kCalled;
      if (is_late()) break;
    }
    if (is_late()) {
      if (missing_ != nullptr) end_without_library();
      else end(WL_ATTACH_NO_MOMENT);
      return false;
    }
    pause_ns(kPauseNs);
    free_late_ones();
    // Code may have been mapped meanwhile, where callers were not found.
    if (!read_program()) return false;
  }
}

// A thread that gets no processor, or that waits for a device, stops later than it was asked to. It must not
// stay so.
void Injection::free_late_ones() {
  std::erase_if(late_, [](Tracee& each) {
    const Tracee::Stop stop = each.interrupt_again();
    if (stop == Tracee::Stop::kLate) return false;
    each.detach();
    return true;
  });
}

bool Injection::is_late_one(pid_t tid) const {
  return std::any_of(late_.begin(), late_.end(), [&](const Tracee& each) { return each.tid() == tid; });
}

// What is to be read of files is read before the thread is stopped. What comes of it does not count: the
// thread may go on meanwhile, and not all of its registers are known.
void Injection::rehearse(pid_t tid) {
  const auto number = [](pid_t of) { return static_cast<std::uint32_t>(of); };
  const sampler::BlockedPlace place = sampler::blocked_place(number(call_.pid), number(tid));
  if (place.instruction != 0) places_.judge({place.instruction, place.stack_pointer, 0}, true);
}

Injection::Look Injection::look_at(pid_t tid) {
  rehearse(tid);
  Tracee tracee(call_.pid, tid);
  const std::int64_t queued_before_ns = queued_ns(call_.pid, tid);
  const std::int64_t begin_ns = now_ns();
  if (const int error = tracee.seize(); error != 0) {
    // Threads may end just now; what is said of the first one is said of the process.
    if (tid != call_.pid) return Look::kElsewhere;
    end(error == ESRCH ? WL_ATTACH_ENDED : WL_ATTACH_REFUSED, error);
    return Look::kOver;
  }
  ++outcome_.attempts;
  const Tracee::Stop stop = tracee.interrupt(std::min(deadline_ns_, begin_ns + kStopNs));
  if (stop == Tracee::Stop::kLate) late_.push_back(tracee);
  if (stop == Tracee::Stop::kEnded || stop == Tracee::Stop::kLate) return Look::kElsewhere;
  user_regs_struct registers;
  const bool is_read = tracee.read_registers(registers);
  const Look look = stop == Tracee::Stop::kStopped && is_read ? judge(tracee, registers, tid) : Look::kElsewhere;
  if (look == Look::kOver && outcome_.status == WL_ATTACH_NOT_CREATED) return look;  // it runs
  tracee.detach();
  const std::int64_t stall_ns = now_ns() - begin_ns;
  const std::int64_t stall_queued_ns = std::min(stall_ns, queued_ns(call_.pid, tid) - queued_before_ns);
  if (stop == Tracee::Stop::kProgramStopped) {
    end(WL_ATTACH_STOPPED);
    return Look::kOver;
  }
  if (look == Look::kElsewhere) {
    outcome_.longest_look_ns = std::max(outcome_.longest_look_ns, stall_ns);
  } else {
    outcome_.stall_ns = stall_ns;
    outcome_.queued_ns = std::max<std::int64_t>(stall_queued_ns, 0);
    outcome_.thread = tid;
  }
  return look;
}

// Threads of other makers, and a child of vfork, have no state of their own in the C library.
bool Injection::has_own_state(const user_regs_struct& registers, pid_t tid) const {
  struct {
    std::uint64_t block, vector, self;
  } head{};
  pid_t number = 0;
  return read_value(call_.pid, registers.fs_base, head) && head.block == registers.fs_base &&
         head.self == registers.fs_base && read_value(call_.pid, registers.fs_base + kThreadNumber, number) &&
         number == own_number(call_.pid, tid);
}

Injection::Look Injection::judge(Tracee& tracee, const user_regs_struct& registers, pid_t tid) {
  // What it has executed meanwhile has other addresses. While the thread is stopped, it executes nothing else.
  if (!program_.is_executed()) return Look::kElsewhere;
  if (!has_own_state(registers, tid) || tracee.is_in_sequence(registers.rip)) return Look::kElsewhere;
  const Safety safety = places_.judge({registers.rip, registers.rsp, registers.rbp}, is_waiting(registers));
  const bool is_half_late = now_ns() - begin_ns_ > call_.timeout_ns / 2;
  const bool is_safe = safety == Safety::kSafe || (safety == Safety::kUnknown && is_half_late);
  if (!is_safe) return Look::kElsewhere;
  return make_thread(tracee, registers) ? Look::kCalled : Look::kOver;
}

// Returns with the registers and signals that the thread had, unless it still runs the code.
bool Injection::make_thread(Tracee& tracee, const user_regs_struct& registers) {
  std::uint64_t signal_mask = 0;
  if (!tracee.read_signal_mask(signal_mask) || !tracee.write_signal_mask(~std::uint64_t{0})) {
    end(WL_ATTACH_REFUSED, errno);
    return false;
  }
  const bool is_made = map_memory(tracee) && write_memory(tracee, registers, signal_mask) &&
                       run_code(tracee, registers);
  if (outcome_.status == WL_ATTACH_NOT_CREATED) return false;
  tracee.write_registers(registers);
  tracee.write_signal_mask(signal_mask);
  return is_made;
}

bool Injection::map_memory(Tracee& tracee) {
  constexpr std::uint64_t kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const auto map = [&](std::uint64_t at, std::uint64_t bytes, std::uint64_t rights, std::uint64_t flags) {
    std::int64_t result = 0;
    const std::uint64_t arguments[6] = {at, bytes, rights, flags, kNone, 0};
    const Tracee::Stop stop = tracee.call_kernel(functions_.system_call, SYS_mmap, arguments, result);
    if (stop == Tracee::Stop::kProgramStopped) return end(WL_ATTACH_STOPPED) == 0;
    if (stop != Tracee::Stop::kCall) return end(WL_ATTACH_ENDED) == 0;
    if (result < 0 && result > -4096) return end(WL_ATTACH_NO_MEMORY, -result) == 0;
    memory_ = static_cast<std::uint64_t>(result);
    return true;
  };
  if (map(0, InjectedLayout::kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, kPrivate)) return true;
  if (outcome_.status != WL_ATTACH_NO_MEMORY) return false;
  // Hardened systems allow no memory that is writable and executable at once.
  end(WL_ATTACH_CALLED);
  return map(0, InjectedLayout::kBytes, PROT_READ | PROT_WRITE, kPrivate) &&
         map(memory_, kCodeBytes, PROT_READ | PROT_EXEC, kPrivate | MAP_FIXED);
}

bool Injection::write_memory(Tracee& tracee, const user_regs_struct& registers, std::uint64_t signal_mask) {
  InjectedData data{};
  data.errno_location = functions_.errno_location;
  data.pthread_create = functions_.pthread_create;
  data.pthread_self = functions_.pthread_self;
  data.pthread_detach = functions_.pthread_detach;
  data.dlopen = functions_.dlopen;
  data.dlsym = functions_.dlsym;
  data.dlerror = functions_.dlerror;
  data.munmap = functions_.munmap;
  data.begin = memory_;
  data.bytes = InjectedLayout::kBytes;
  data.saved = saved_of(registers);
  data.signal_mask = signal_mask;
  data.wait_ns = kReleaseNs;
  std::strncpy(data.library, call_.library, sizeof data.library - 1);
  std::strncpy(data.function, call_.function, sizeof data.function - 1);
  std::strncpy(data.argument, call_.argument, sizeof data.argument - 1);
  const bool is_written = write_bytes(call_.pid, memory_ + InjectedLayout::kData, &data, sizeof data) &&
                          tracee.write_code(memory_, injected_code(), injected_code_bytes());
  return is_written || end(WL_ATTACH_REFUSED, errno) == 0;
}

bool Injection::is_set(std::size_t offset, bool& is_there) const {
  std::int32_t value = 0;
  is_there = read_value(call_.pid, memory_ + InjectedLayout::kData + offset, value);
  return value != 0;
}

bool Injection::run_code(Tracee& tracee, const user_regs_struct& registers) {
  user_regs_struct there = registers;
  there.rip = memory_;
  there.rsp = memory_ + InjectedLayout::kStackEnd;
  there.orig_rax = ~std::uint64_t{0};
  if (!tracee.write_registers(there) || !tracee.resume()) return end(WL_ATTACH_ENDED) == 0;
  created_ns_ = now_ns();
  for (bool is_there = true; !is_set(offsetof(InjectedData, is_created), is_there);) {
    const Tracee::Stop stop = tracee.look();
    if (!is_there || stop == Tracee::Stop::kEnded) return end(WL_ATTACH_ENDED) == 0;
    if (stop == Tracee::Stop::kProgramStopped) tracee.stay_stopped();
    if (stop == Tracee::Stop::kStopped) tracee.resume();
    if (is_late()) return end(WL_ATTACH_NOT_CREATED) == 0;
    pause_ns(kPauseNs / 100);
  }
  const Tracee::Stop stop = tracee.interrupt(deadline_ns_ + kStopNs);
  if (stop == Tracee::Stop::kLate) return end(WL_ATTACH_NOT_CREATED) == 0;
  if (stop == Tracee::Stop::kEnded) return end(WL_ATTACH_ENDED) == 0;
  std::int32_t error = 0;
  read_value(call_.pid, memory_ + InjectedLayout::kData + offsetof(InjectedData, create_error), error);
  return error == 0 || end(WL_ATTACH_NO_THREAD, error) == 0;
}

void Injection::wait_for_call() {
  for (bool is_there = true; !is_set(offsetof(InjectedData, is_done), is_there);) {
    if (!is_there || !program_.is_executed()) {
      end(WL_ATTACH_ENDED);
      return;
    }
    if (is_late()) {
      end(WL_ATTACH_NOT_RETURNED);
      finish_call();
      return;
    }
    pause_ns(kPauseNs / 10);
  }
  outcome_.call_ns = now_ns() - created_ns_;
  InjectedData data;
  if (!read_value(call_.pid, memory_ + InjectedLayout::kData, data)) {
    end(WL_ATTACH_ENDED);
    return;
  }
  outcome_.result = data.result;
  std::memcpy(outcome_.text, data.text, sizeof outcome_.text - 1);
  end(data.outcome == InjectedData::kCalled       ? WL_ATTACH_CALLED
      : data.outcome == InjectedData::kNotLoaded ? WL_ATTACH_NOT_LOADED
                                                 : WL_ATTACH_NO_FUNCTION);
  finish_call();
}

// From now on the thread that was made removes the code when it has ended its call.
void Injection::finish_call() {
  const std::int32_t yes = 1;
  const std::uint64_t at = memory_ + InjectedLayout::kData + offsetof(InjectedData, is_released);
  write_bytes(call_.pid, at, &yes, sizeof yes);
}

}  // namespace warpline::attach

#endif
