// The one clock of a recording.
#pragma once

#include <ctime>

#include <cstdint>

namespace warpline::agent {

inline std::int64_t read_clock_ns(clockid_t clock) noexcept {
  timespec now;
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// CLOCK_MONOTONIC: the same in every process of a host, and kept at the right pace by NTP.
inline std::int64_t now_ns() noexcept { return read_clock_ns(CLOCK_MONOTONIC); }

// The same as records have it.
inline std::uint64_t timestamp() noexcept { return static_cast<std::uint64_t>(now_ns()); }

}  // namespace warpline::agent
