// CUPTI's range profiler of one context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "counters/abi.h"
#include "counters/metrics.h"

namespace warpline::agent {

using CounterImage = std::vector<std::uint8_t>;

// One thread at a time.
class RangeProfiler {
 public:
  // Returns null, with the function that failed and its result, if there can be none. Images have room
  // for most_ranges ranges, or for fewer that need most_bytes.
  static std::unique_ptr<RangeProfiler> make(const cupti::CounterFunctions& functions,
                                             const Metrics& metrics, void* context,
                                             cupti::RangeKind range, cupti::ReplayKind replay,
                                             cupti::CacheMode caches,
                                             std::size_t most_ranges, std::size_t most_bytes,
                                             const char*& function,
                                             cupti::Result& result);
  ~RangeProfiler();
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  void* context() const noexcept { return context_; }
  bool is_started() const noexcept { return is_started_; }
  std::size_t most_ranges() const noexcept { return most_ranges_; }

  // An image for most_ranges() ranges, without any.
  bool clear(CounterImage& image) const noexcept;
  // Makes an image the one that is filled from now on; it must stay where it is. While stopped.
  cupti::Result use(CounterImage& image) noexcept;

  cupti::Result start() noexcept;
  cupti::Result stop() noexcept;
  cupti::Result push(const char* name) noexcept;
  cupti::Result pop() noexcept;
  // Brings what was counted into the image. While stopped.
  cupti::Result decode() noexcept;

  // How many ranges an image has.
  static std::size_t ranges(const cupti::CounterFunctions& functions, const CounterImage& image) noexcept;

 private:
  RangeProfiler(const cupti::CounterFunctions& functions, const Metrics& metrics, void* context,
                cupti::RangeKind range, cupti::ReplayKind replay)
      : functions_(functions), metrics_(metrics), context_(context), range_(range), replay_(replay) {}
  std::size_t image_bytes(std::size_t ranges, cupti::Result& result) const noexcept;

  cupti::CounterFunctions functions_;
  const Metrics& metrics_;
  void* context_;
  cupti::RangeKind range_;
  cupti::ReplayKind replay_;
  void* profiler_ = nullptr;
  std::size_t most_ranges_ = 0;
  std::size_t bytes_ = 0;
  bool is_started_ = false;
};

}  // namespace warpline::agent
