// When counting may take time of the program: within a budget, and in bursts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace warpline::agent {

inline constexpr std::uint32_t kForever = ~std::uint32_t{0};

// The time that counting has taken and may take. Samples are taken in bursts: some of each kernel at the
// first, more at the next ones, which come after the time since the first has doubled. So samples are not all
// of a program's first moments, and a kernel that is new is counted at once.
class Pace {
 public:
  // With budget_ppm 0 time is not limited; with burst 0 there is one burst, which does not end.
  void configure(std::uint64_t budget_ppm, std::uint64_t burst, std::int64_t now_ns) noexcept;

  // The first launch is being counted since from_ns; what setting up takes is no running cost.
  void begin(std::int64_t from_ns, std::int64_t now_ns) noexcept;
  void spend(std::int64_t ns) noexcept { spent_ns_ += ns; }

  // Whether the budget allows to count the next launch; to program the counters takes more of it. If not,
  // counting rests.
  bool can_afford(bool is_started, std::int64_t now_ns) noexcept;

  // Whether nothing is counted until time has passed.
  bool is_resting() const noexcept { return is_resting_; }

  // The number of the current burst, from 1.
  std::uint32_t burst() const noexcept { return burst_; }

  // Ends a rest that is over, and begins the next burst when it is due.
  void tick(std::int64_t now_ns) noexcept;

 private:
  std::int64_t unspent_ns(std::int64_t now_ns) const noexcept;

  double share_ = 0;       // of the time that passes
  bool is_limited_ = false;
  bool has_bursts_ = false;
  std::int64_t began_ns_ = 0;
  std::atomic<std::int64_t> spent_ns_{0};
  std::atomic<bool> is_resting_{false};
  std::atomic<std::uint32_t> burst_{1};
  std::atomic<std::int64_t> first_ns_{0};  // 0: nothing was counted
  std::int64_t next_burst_ns_ = 0;         // of the thread that ticks; 0: none yet
};

// Launches that are not wanted, by a hash of kernel, grid and block, and until when: they need no lock. An
// entry may be lost to another; then the filter is asked again.
class Unwanted {
 public:
  bool has(std::uint64_t hash, std::uint32_t burst) const noexcept {
    const Place& place = places_[hash % kPlaces];
    return place.hash == hash && place.last_burst >= burst;
  }
  // Not wanted up to the end of a burst.
  void add(std::uint64_t hash, std::uint32_t last_burst) noexcept {
    Place& place = places_[hash % kPlaces];
    place.hash = 0;  // no one shall see the one with the other's burst
    place.last_burst = last_burst;
    place.hash = hash;
  }

 private:
  static constexpr std::size_t kPlaces = 8192;
  struct Place {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<std::uint32_t> last_burst{0};
  };
  std::array<Place, kPlaces> places_{};
};

}  // namespace warpline::agent
