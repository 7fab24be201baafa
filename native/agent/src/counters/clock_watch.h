// The clock of GPUs while the passes over a launch are made. If it changes between these, metrics of
// different passes do not fit together.
//
// It is read from the library for managing GPUs, which is opened at the first reading and kept: where
// that is missing or gives errors, clocks are unknown. A fork of the process reads none.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpline::agent {

// The lowest and highest clock of several readings; a reading that failed, 0, makes it unknown.
struct ClockRange {
  std::uint32_t lowest_mhz = ~std::uint32_t{0};
  std::uint32_t highest_mhz = 0;

  void add(std::uint32_t mhz) noexcept {
    lowest_mhz = std::min(lowest_mhz, mhz);
    highest_mhz = std::max(highest_mhz, mhz);
  }
  bool is_known() const noexcept { return lowest_mhz != 0 && highest_mhz != 0; }
};

// Returns the SM clock of a GPU, by CUDA's ordinal; 0: unknown.
std::uint32_t read_sm_clock_mhz(std::uint32_t device) noexcept;

// Reads a GPU's clock now, every 10 ms from now on, and when the watch ends. One thread does that for
// all GPUs, and sleeps while none is watched. A GPU is watched for one caller at a time.
void begin_clock_watch(std::uint32_t device) noexcept;
ClockRange end_clock_watch(std::uint32_t device) noexcept;

// Ends all watches, and the thread; the next watch begins another.
void end_clock_watches() noexcept;

}  // namespace warpline::agent
