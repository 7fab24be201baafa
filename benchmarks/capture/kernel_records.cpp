// The least that any profiler can cost: CUPTI's records of kernels, taken and thrown away.
// Loaded by the driver from CUDA_INJECTION64_PATH.

#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <vector>

#include <unistd.h>
#include <x86intrin.h>

namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;

std::mutex guard;
std::vector<std::uint8_t*> unused;
std::uint64_t ticks_at_start, ns_at_start;
double ns_per_tick;

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + now.tv_nsec;
}

std::uint64_t CUPTIAPI timestamp() {
  return ns_at_start + static_cast<std::uint64_t>((__rdtsc() - ticks_at_start) * ns_per_tick);
}

void CUPTIAPI give(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  const std::lock_guard<std::mutex> lock(guard);
  if (unused.empty()) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(4096, kBytes));
  } else {
    *buffer = unused.back();
    unused.pop_back();
  }
  *size = *buffer ? kBytes : 0;
  *most = 0;
}

void CUPTIAPI take(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  const std::lock_guard<std::mutex> lock(guard);
  unused.push_back(buffer);
}

void must(CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  std::fprintf(stderr, "kernel_records: CUPTI failed with %d\n", static_cast<int>(result));
  std::_Exit(3);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const std::uint64_t ns = now_ns(), ticks = __rdtsc();
  usleep(50'000);
  ns_at_start = now_ns();
  ticks_at_start = __rdtsc();
  ns_per_tick = static_cast<double>(ns_at_start - ns) / static_cast<double>(ticks_at_start - ticks);
  std::size_t size = 1;
  std::uint8_t per_thread = 1;
  cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &per_thread);
  must(cuptiActivityRegisterTimestampCallback(timestamp));
  must(cuptiActivityRegisterCallbacks(give, take));
  must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  std::atexit([] { cuptiActivityFlushAll(1); });
  return 1;
}
