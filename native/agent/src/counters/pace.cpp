#include "counters/pace.h"

namespace warpline::agent {
namespace {

constexpr std::int64_t kFirstBudgetNs = 500'000'000;    // for programs that are over soon
constexpr std::int64_t kWorthwhileNs = 200'000'000;     // programming counters pays for no less
constexpr std::int64_t kFirstBurstNs = 1'000'000'000;

}  // namespace

void Pace::configure(std::uint64_t budget_ppm, std::uint64_t burst, std::int64_t now_ns) noexcept {
  share_ = static_cast<double>(budget_ppm) * 1e-6;
  is_limited_ = budget_ppm != 0;
  has_bursts_ = burst != 0;
  began_ns_ = now_ns;
}

void Pace::begin(std::int64_t from_ns, std::int64_t now_ns) noexcept {
  spent_ns_ = from_ns - now_ns;
  first_ns_ = now_ns;
}

std::int64_t Pace::unspent_ns(std::int64_t now_ns) const noexcept {
  const auto run_ns = static_cast<double>(now_ns - began_ns_);
  return kFirstBudgetNs + static_cast<std::int64_t>(share_ * run_ns) - spent_ns_;
}

bool Pace::can_afford(bool is_started, std::int64_t now_ns) noexcept {
  if (!is_limited_ || unspent_ns(now_ns) > (is_started ? 0 : kWorthwhileNs)) return true;
  is_resting_ = true;
  return false;
}

void Pace::tick(std::int64_t now_ns) noexcept {
  if (is_resting_ && unspent_ns(now_ns) > kWorthwhileNs) is_resting_ = false;
  const std::int64_t first_ns = first_ns_;
  if (!has_bursts_ || first_ns == 0) return;
  if (next_burst_ns_ == 0) next_burst_ns_ = first_ns + kFirstBurstNs;
  if (now_ns < next_burst_ns_) return;
  next_burst_ns_ = now_ns + (now_ns - first_ns);
  ++burst_;
}

}  // namespace warpline::agent
