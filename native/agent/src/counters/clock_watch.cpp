#include "counters/clock_watch.h"

#include <pthread.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "cupti/calls.h"
#include "machine/cuda_devices.h"
#include "machine/management.h"
#include "session/clock.h"
#include "session/lock.h"
#include "session/own_thread.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kReadEveryNs = 10'000'000;
constexpr std::size_t kMostWatchedGpus = 64;

struct WatchedGpu {
  void* handle = nullptr;  // the management library's; null if it does not know the GPU
  bool is_found = false;   // the handle was asked for
  bool is_watched = false;
  ClockRange range;
};

class ClockWatch {
 public:
  ClockWatch() noexcept;

  std::uint32_t read(std::uint32_t device) noexcept;
  void begin(std::uint32_t device) noexcept;
  ClockRange end(std::uint32_t device) noexcept;
  void end_all() noexcept;

  // In a fork of the process, which has no thread but its own, and a lock that nobody will release.
  void become_fork() noexcept;
  // No clock is read from now on. Waits for a reading that is under way.
  void close() noexcept;
  pthread_mutex_t& lock() noexcept { return lock_; }

 private:
  static void* run(void* self);
  void work() noexcept;
  void make_lock() noexcept;
  std::uint32_t ask(std::uint32_t device) noexcept;

  // Also held while the library is asked. Recursive: that may fork, to have a device file made.
  pthread_mutex_t lock_;
  pthread_cond_t changed_;
  std::optional<const Management> management_;
  std::array<WatchedGpu, kMostWatchedGpus> gpus_;
  std::size_t watched_ = 0;
  bool is_closed_ = false;
  pthread_t thread_{};
  bool runs_ = false;
  bool ends_ = false;
};

// Never freed: threads may launch until the very end of the process.
ClockWatch& clock_watch() {
  static ClockWatch* one = new ClockWatch;
  return *one;
}

void ClockWatch::make_lock() noexcept {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock_, &recursive);
  pthread_mutexattr_destroy(&recursive);
}

ClockWatch::ClockWatch() noexcept {
  make_lock();
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&changed_, &monotonic);
  pthread_condattr_destroy(&monotonic);
  // A fork waits for a reading that is under way: else its child could find a lock of the library's
  // that nobody will release.
  pthread_atfork([] { pthread_mutex_lock(&clock_watch().lock()); },
                 [] { pthread_mutex_unlock(&clock_watch().lock()); },
                 [] { clock_watch().become_fork(); });
}

void ClockWatch::become_fork() noexcept {
  make_lock();
  for (WatchedGpu& gpu : gpus_) gpu.is_watched = false;
  watched_ = 0;
  runs_ = ends_ = false;
  is_closed_ = true;
}

void ClockWatch::close() noexcept {
  const Lock lock(lock_);
  is_closed_ = true;
}

// With the lock held. Returns a GPU's clock; 0: unknown.
std::uint32_t ClockWatch::ask(std::uint32_t device) noexcept {
  if (is_closed_ || device >= gpus_.size()) return 0;
  if (!management_) {
    management_.emplace();
    std::atexit([] { clock_watch().close(); });  // before the exit handlers of the library
  }
  WatchedGpu& gpu = gpus_[device];
  if (!gpu.is_found) {
    const std::uint64_t pci = pci_location(device);
    gpu.handle = pci == ~std::uint64_t{0} ? nullptr : management_->gpu_at(pci);
    gpu.is_found = true;
  }
  return management_->sm_clock_mhz(gpu.handle);
}

std::uint32_t ClockWatch::read(std::uint32_t device) noexcept {
  const Lock lock(lock_);
  return ask(device);
}

void ClockWatch::begin(std::uint32_t device) noexcept {
  const Lock lock(lock_);
  const std::uint32_t mhz = ask(device);
  if (mhz == 0 || gpus_[device].is_watched) return;
  gpus_[device].is_watched = true;
  gpus_[device].range = {};
  gpus_[device].range.add(mhz);
  ++watched_;
  if (!runs_) runs_ = start_own_thread(thread_, run, this);
  pthread_cond_signal(&changed_);
}

ClockRange ClockWatch::end(std::uint32_t device) noexcept {
  const Lock lock(lock_);
  if (device >= gpus_.size() || !gpus_[device].is_watched) return {};
  WatchedGpu& gpu = gpus_[device];
  gpu.range.add(ask(device));
  gpu.is_watched = false;
  --watched_;
  return gpu.range;
}

void ClockWatch::end_all() noexcept {
  {
    const Lock lock(lock_);
    for (WatchedGpu& gpu : gpus_) gpu.is_watched = false;
    watched_ = 0;
    if (!runs_ || ends_) return;
    ends_ = true;
    pthread_cond_signal(&changed_);
  }
  pthread_join(thread_, nullptr);
  const Lock lock(lock_);
  runs_ = ends_ = false;
}

void* ClockWatch::run(void* self) {
  pthread_setname_np(pthread_self(), "warpline-clock");
  ignore_calls_of_this_thread();
  static_cast<ClockWatch*>(self)->work();
  return nullptr;
}

void ClockWatch::work() noexcept {
  const Lock lock(lock_);
  while (!ends_) {
    if (watched_ == 0) {
      pthread_cond_wait(&changed_, &lock_);
      continue;
    }
    const std::int64_t until = now_ns() + kReadEveryNs;
    const timespec time{static_cast<time_t>(until / 1'000'000'000),
                        static_cast<long>(until % 1'000'000'000)};
    pthread_cond_timedwait(&changed_, &lock_, &time);
    for (std::uint32_t device = 0; device < gpus_.size(); ++device) {
      if (gpus_[device].is_watched) gpus_[device].range.add(ask(device));
    }
  }
}

}  // namespace

std::uint32_t read_sm_clock_mhz(std::uint32_t device) noexcept { return clock_watch().read(device); }
void begin_clock_watch(std::uint32_t device) noexcept { clock_watch().begin(device); }
ClockRange end_clock_watch(std::uint32_t device) noexcept { return clock_watch().end(device); }
void end_clock_watches() noexcept { clock_watch().end_all(); }

}  // namespace warpline::agent
