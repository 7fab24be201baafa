#include "cupti/start_up.h"

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "machine/cuda_devices.h"
#include "session/clock.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kQuietNs = 1'500'000'000;
// A program may load libraries for ever, or use contexts of its own only, which nobody can list.
constexpr std::int64_t kLongestStartNs = 10'000'000'000;

std::atomic<std::int64_t> g_initialised_ns{0};  // when it was seen first; 0: not yet
std::atomic<std::int64_t> g_stirred_ns{0};      // when something showed that CUDA is being taken up
std::atomic<bool> g_is_settled{false};
unsigned long long g_loaded = 0;  // libraries that were ever loaded

bool is_library_new() noexcept {
  unsigned long long loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<unsigned long long*>(into) = info->dlpi_adds;
        return 1;  // it is the same for all
      },
      &loaded);
  const bool is_new = loaded != g_loaded;
  g_loaded = loaded;
  return is_new;
}

}  // namespace

void cuda_comes() noexcept {
  const std::int64_t now = now_ns();
  g_initialised_ns.store(now);
  g_stirred_ns.store(now);
}

bool is_cuda_settled(bool is_prepared) noexcept {
  if (g_is_settled.load(std::memory_order_relaxed)) return true;
  if (!is_cuda_initialised()) {
    g_initialised_ns.store(0);
    return false;
  }
  if (g_initialised_ns.load() == 0) cuda_comes();
  if (!is_prepared && now_ns() - g_initialised_ns.load() < kLongestStartNs) {
    const bool is_new = is_library_new();
    if (active_devices() == 0 || is_new) g_stirred_ns.store(now_ns());
  }
  const bool is_settled = now_ns() - g_stirred_ns.load() >= kQuietNs;
  g_is_settled.store(is_settled, std::memory_order_relaxed);
  return is_settled;
}

}  // namespace warpline::agent
