// Which work on a device a call should have led to, and when none is expected.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "raw/cuda.h"
#include "warpline_cuda.h"

namespace warpline {

// When streams of a process were being captured: what is launched then runs later, in a graph.
class Captures {
 public:
  void add(int64_t time_ns, int change) { changes_.emplace_back(time_ns, change); }

  void settle() {
    std::sort(changes_.begin(), changes_.end());
    int depth = 0;
    for (auto &[time_ns, change] : changes_) {
      depth = std::max(0, depth + change);
      change = depth;
    }
  }

  bool holds(int64_t time_ns) const {
    const auto after = std::upper_bound(changes_.begin(), changes_.end(),
                                        std::pair(time_ns, INT32_MAX));
    return after != changes_.begin() && (after - 1)->second > 0;
  }

 private:
  std::vector<std::pair<int64_t, int>> changes_;  // once settled: from when on, how many
};

// What was recorded of a process at a time.
inline uint32_t collected_at(const CudaFacts &facts, int64_t time_ns) {
  if (facts.collecting.empty()) return UINT32_MAX;
  const auto after = std::upper_bound(facts.collecting.begin(), facts.collecting.end(),
                                      std::pair(time_ns, UINT32_MAX));
  return after == facts.collecting.begin() ? 0 : (after - 1)->second;
}

// What device work a call should have led to: the bits of what must be collected for that, and the
// number of those that did not.
struct Expected {
  uint32_t collected = 0;
  int64_t CudaFacts::*missing = nullptr;
};

inline Expected expected_of(uint32_t flags, bool is_error, uint32_t correlation, const CudaCallName &name) {
  const bool launches = (flags & raw::Call::kLaunches) != 0;
  if (!launches || is_error || correlation == 0) return {};
  if ((flags & raw::Call::kIsGraph) != 0) {
    return {raw::kCollectsKernels | raw::kCollectsGraphs, &CudaFacts::missing_graphs};
  }
  if (name.is_kernel) return {raw::kCollectsKernels, &CudaFacts::missing_kernels};
  if (name.is_copy) return {raw::kCollectsCopies, &CudaFacts::missing_copies};
  if (name.is_fill) return {raw::kCollectsFills, &CudaFacts::missing_fills};
  return {};
}

}  // namespace warpline
