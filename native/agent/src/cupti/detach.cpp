#include "cupti/detach.h"

#include "session/lock.h"

namespace warpline::agent {
namespace {

// Calls without work on the device have ids, too, that no buffer tells: above the largest written.
constexpr std::uint32_t kMargin = 1u << 20;

pthread_mutex_t g_settling = PTHREAD_MUTEX_INITIALIZER;
std::atomic<std::uint32_t> g_largest{0};

}  // namespace

std::atomic<bool> g_has_met_graph{false};
std::atomic<bool> g_may_count_anew{false};
std::atomic<std::uint32_t> g_correlation_offset{0};

void saw_written_correlation(std::uint32_t largest) noexcept {
  if (largest > g_largest.load(std::memory_order_relaxed)) {
    g_largest.store(largest, std::memory_order_relaxed);
  }
}

void expect_another_count() noexcept { g_may_count_anew.store(true, std::memory_order_relaxed); }

void settle_count(std::uint32_t id) noexcept {
  const Lock lock(g_settling);
  if (id == 0 || !g_may_count_anew.load(std::memory_order_relaxed)) return;
  const std::uint32_t largest = g_largest.load(std::memory_order_relaxed);
  if (written_correlation(id) <= largest) {
    g_correlation_offset.store(largest + kMargin, std::memory_order_relaxed);
  }
  g_may_count_anew.store(false, std::memory_order_release);  // after the offset
}

}  // namespace warpline::agent
