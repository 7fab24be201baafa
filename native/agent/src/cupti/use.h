// Threads of the agent's own that are within CUPTI, and forks of the program.
#pragma once

#include <cstdint>

namespace warpline::agent {

// A use of CUPTI that the program does not know of. A fork waits until it is over: else its child could find a lock of
// CUPTI's that nobody will release, and wait for it in its own CUDA API calls or at its exit. Uses may be nested; one
// waits for that of another thread, which comes before every other lock of tracing. Neither waits for long: CUPTI may
// itself wait for the thread that does. Not from within a callback.
class CuptiUse {
 public:
  CuptiUse() noexcept;
  ~CuptiUse();
  CuptiUse(const CuptiUse&) = delete;
  CuptiUse& operator=(const CuptiUse&) = delete;

 private:
  bool is_held_;
};

}  // namespace warpline::agent
