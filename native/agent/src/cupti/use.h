// Threads of the agent's own that are within CUPTI, and forks of the program.
#pragma once

#include <cstdint>

namespace warpline::agent {

// Held while a thread of the agent's own is in CUPTI. A fork waits for its end: otherwise the child could inherit a
// CUPTI lock that nobody will release, and hang in a CUDA API call or at exit. Uses may be nested. A use waits for one
// in another thread, and is taken before every other lock of tracing. Both waits are limited, because CUPTI may itself
// wait for the thread that waits here. Not from within a callback.
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
