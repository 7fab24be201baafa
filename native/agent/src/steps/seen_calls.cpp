#include "steps/seen_calls.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace warpline::agent {
namespace {

constexpr std::size_t kAllBytes = kSeenThreads * SeenCalls::kMost * sizeof(ObservedCall);

ObservedCall* g_memory = nullptr;  // mapped once, kept
std::atomic<std::uint32_t> g_round{0};
thread_local constinit SeenCalls* t_seen = nullptr;
thread_local constinit std::uint32_t t_refused_in = 0;  // the round in which none was free

bool lives(std::uint32_t thread) noexcept {
  const int kept = errno;
  const bool is_there = syscall(SYS_tgkill, getpid(), thread, 0) == 0;
  errno = kept;
  return is_there;
}

}  // namespace

SeenCalls g_seen_calls[kSeenThreads];

ObservedCall* SeenCalls::calls() const noexcept {
  return g_memory + static_cast<std::size_t>(this - g_seen_calls) * kMost;
}

bool SeenCalls::take(std::uint32_t thread) noexcept {
  std::uint32_t owner = thread_.load(std::memory_order_acquire);
  if (owner != 0 && owner != thread && lives(owner)) return false;
  return thread_.compare_exchange_strong(owner, thread, std::memory_order_acq_rel);
}

void SeenCalls::keep(const ObservedCall& call) noexcept {
  const std::uint32_t round = g_round.load(std::memory_order_relaxed);
  if (round_.load(std::memory_order_relaxed) != round) [[unlikely]] {
    count_.store(0, std::memory_order_relaxed);
    round_.store(round, std::memory_order_release);
  }
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (count == kMost) return;
  calls()[count] = call;
  count_.store(count + 1, std::memory_order_release);
}

std::size_t SeenCalls::count() const noexcept {
  const bool is_of_round =
      round_.load(std::memory_order_acquire) == g_round.load(std::memory_order_relaxed);
  return is_of_round ? count_.load(std::memory_order_acquire) : 0;
}

void SeenCalls::read(std::vector<ObservedCall>& into) const {
  into.assign(calls(), calls() + count());
}

bool prepare_seen_calls() noexcept {
  if (g_memory != nullptr) return true;
  void* memory = mmap(nullptr, kAllBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  g_memory = static_cast<ObservedCall*>(memory);
  return true;
}

void forget_seen_calls() noexcept { g_round.fetch_add(1, std::memory_order_relaxed); }

void release_seen_calls() noexcept { madvise(g_memory, kAllBytes, MADV_DONTNEED); }

std::size_t seen_calls() noexcept {
  std::size_t sum = 0;
  for (const SeenCalls& one : g_seen_calls) sum += one.count();
  return sum;
}

void keep_call(CallSignature signature, std::int64_t time_ns) noexcept {
  if (t_seen == nullptr) [[unlikely]] {
    const std::uint32_t round = g_round.load(std::memory_order_relaxed);
    if (t_refused_in == round) return;
    const auto me = static_cast<std::uint32_t>(syscall(SYS_gettid));
    for (SeenCalls& one : g_seen_calls) {
      if (!one.take(me)) continue;
      t_seen = &one;
      break;
    }
    if (t_seen == nullptr) {
      t_refused_in = round;
      return;
    }
  }
  t_seen->keep({signature, time_ns});
}

bool is_of_this_thread(const SeenCalls* calls) noexcept {
  return t_seen != nullptr && t_seen == calls;
}

}  // namespace warpline::agent
