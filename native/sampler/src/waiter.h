// Waits for samples, a time, or the end.
#pragma once

#include <cstdint>

#include "perf_events.h"

namespace warpline::sampler {

class Waiter {
 public:
  // `until`: a file that can be read, or was closed at its other end, when it is the end.
  Waiter(int until, PerfEvents& events);
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  // Waits for the next sample, at most so long. False at the end.
  bool wait(std::uint64_t most_ns) const;

 private:
  int until_;
  int set_;  // of until and rings
};

}  // namespace warpline::sampler
