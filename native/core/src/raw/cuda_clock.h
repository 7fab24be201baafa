// Times of CUPTI's clock, where CUPTI could not use the host's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "raw/cuda.h"

namespace warpline {

// Turns times of CUPTI's clock into the host's, along the lines between the pairs read together.
class CudaClock {
 public:
  explicit CudaClock(std::vector<CudaClockPair> &pairs) : pairs_(pairs) {
    std::sort(pairs_.begin(), pairs_.end(), [](const CudaClockPair &a, const CudaClockPair &b) {
      return std::pair(a.cupti_ns, a.host_ns) < std::pair(b.cupti_ns, b.host_ns);
    });
  }

  int64_t host_ns(int64_t cupti_ns) const {
    const auto after = std::upper_bound(
        pairs_.begin(), pairs_.end(), cupti_ns,
        [](int64_t time, const CudaClockPair &pair) { return time < pair.cupti_ns; });
    // The line between the two pairs around it, or the outermost two.
    const auto last = pairs_.end() - 1;
    const auto left =
        after == pairs_.begin() ? after : std::min(after - 1, last - (last > pairs_.begin()));
    const auto right = left == last ? left : left + 1;
    const int64_t step = right->cupti_ns - left->cupti_ns;
    const auto distance = static_cast<double>(cupti_ns - left->cupti_ns);
    const double rate =
        step <= 0 ? 1.0
                  : static_cast<double>(right->host_ns - left->host_ns) / static_cast<double>(step);
    const double moved = std::clamp(distance * rate, -2e18, 2e18);
    return std::clamp<int64_t>(left->host_ns + static_cast<int64_t>(moved), 0, kFarNs);
  }

 private:
  std::vector<CudaClockPair> &pairs_;
};

}  // namespace warpline
