#include "cpu_sampling/sampled_thread.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "session/clock.h"
#include "session/process.h"

// What the C library's headers lack, or call otherwise: who gets a timer's signal.
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace warpline::agent {
namespace {

constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t kOwnBytes =
    (sizeof(SampledThread) + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr std::size_t kMappedBytes = kOwnBytes + SampledThread::kSamples * sizeof(Sample);

// The kernel's clock of the CPU time of a thread of this process.
clockid_t cpu_clock_of(pid_t tid) noexcept {
  constexpr unsigned kOfThread = 4, kScheduled = 2;
  return static_cast<clockid_t>(~static_cast<unsigned>(tid) << 3 | kOfThread | kScheduled);
}

void read_registers(const void* context, CopiedStack& stack) noexcept {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  stack.instruction = static_cast<std::uint64_t>(machine.gregs[REG_RIP]);
  stack.stack_pointer = static_cast<std::uint64_t>(machine.gregs[REG_RSP]);
  stack.frame_pointer = static_cast<std::uint64_t>(machine.gregs[REG_RBP]);
#elif defined(__aarch64__)
  stack.instruction = machine.pc;
  stack.stack_pointer = machine.sp;
  stack.frame_pointer = machine.regs[29];
#else
  static_cast<void>(machine);
  stack.instruction = stack.stack_pointer = stack.frame_pointer = 0;
#endif
}

}  // namespace

SampledThread* SampledThread::make(pid_t tid, int signal_number, std::uint32_t hz,
                                   bool has_python) noexcept {
  void* memory = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, kMappedBytes, MADV_DONTFORK);
  auto* thread = new (memory) SampledThread;
  thread->samples_ = reinterpret_cast<Sample*>(static_cast<char*>(memory) + kOwnBytes);
  thread->tid_ = tid;
  thread->has_python_ = has_python;
  thread->period_ns_ = 1'000'000'000L / static_cast<long>(hz);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal_number;
  event.sigev_value.sival_ptr = thread;
  event.sigev_notify_thread_id = tid;
  if (timer_create(cpu_clock_of(tid), &event, &thread->timer_) != 0) {
    munmap(memory, kMappedBytes);
    return nullptr;
  }
  thread->sampled_ns = std::max<std::int64_t>(thread->cpu_ns(), 0);
  return thread;
}

void SampledThread::remove() noexcept {
  timer_delete(timer_);
  munmap(this, kMappedBytes);
}

void SampledThread::turn(bool is_on) noexcept {
  is_on_.store(is_on, std::memory_order_release);
  const long period = is_on ? period_ns_ : 0;
  const timespec time{period / 1'000'000'000, period % 1'000'000'000};
  const itimerspec every{time, time};
  timer_settime(timer_, 0, &every, nullptr);
}

std::int64_t SampledThread::cpu_ns() const noexcept {
  timespec time;
  if (clock_gettime(cpu_clock_of(tid_), &time) != 0) return -1;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void SampledThread::take(const siginfo_t& info, const void* context) noexcept {
  if (!is_on()) return;
  std::size_t place = 0;
  while (place != kSamples && full_since_ns_[place].load(std::memory_order_acquire) != 0) ++place;
  if (place == kSamples) {
    dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Sample* const sample = samples_ + place;
  sample->time_ns = now_ns();
  sample->periods = 1 + static_cast<std::uint64_t>(std::max(info.si_overrun, 0));
  const int cpu = sched_getcpu();
  sample->cpu = cpu < 0 ? UINT32_MAX : static_cast<std::uint32_t>(cpu);
  read_registers(context, sample->stack);
  sample->stack.copy = sample->copy;
  sample->stack.bytes = copy_stack(*sample);
  sample->python.count = 0;
  if (has_python_) {
    auto* memory = new (python_room_) CopiedMemory(false);
    walk_python_in_handler(sample->python, *memory, static_cast<std::uint32_t>(tid_) == g_process->pid);
  }
  full_since_ns_[place].store(sample->time_ns, std::memory_order_release);
}

// Page by page: what the kernel has copied when one is not there is known.
std::size_t SampledThread::copy_stack(Sample& sample) noexcept {
  constexpr std::size_t kPages = Sample::kMostBytes / kPageBytes + 1;
  const std::uint64_t begin = sample.stack.stack_pointer;
  const std::uint64_t known = stack_end.load(std::memory_order_relaxed);
  const bool is_near = known > begin && known - begin < Sample::kMostBytes;
  const std::uint64_t end = is_near ? known : begin + Sample::kMostBytes;
  iovec pages[kPages];
  std::size_t count = 0;
  for (std::uint64_t at = begin; at < end && count < kPages; ++count) {
    const std::uint64_t page_end = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    pages[count] = {reinterpret_cast<void*>(at), page_end - at};
    at = page_end;
  }
  const iovec here{sample.copy, end - begin};
  const ssize_t copied =
      process_vm_readv(static_cast<pid_t>(g_process->pid), &here, 1, pages, count, 0);
  return copied < 0 ? 0 : static_cast<std::size_t>(copied);
}

std::size_t SampledThread::oldest() const noexcept {
  std::size_t found = kSamples;
  std::int64_t found_ns = INT64_MAX;
  for (std::size_t place = 0; place != kSamples; ++place) {
    const std::int64_t since_ns = full_since_ns_[place].load(std::memory_order_acquire);
    if (since_ns == 0 || since_ns >= found_ns) continue;
    found = place;
    found_ns = since_ns;
  }
  return found;
}

}  // namespace warpline::agent
