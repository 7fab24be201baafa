#include "counters/range_profiler.h"

#include <algorithm>

#include "counters/library.h"

namespace warpline::agent {
namespace {

using cupti::kSuccess;
using cupti::Result;

}  // namespace

std::size_t RangeProfiler::image_bytes(std::size_t ranges, Result& result) const noexcept {
  auto ask = cupti::sized(&cupti::RangeDataSize::image_bytes);
  ask.profiler = profiler_;
  ask.names = metrics_.names();
  ask.count = metrics_.size();
  ask.max_ranges = ranges;
  ask.max_nodes = static_cast<std::uint32_t>(ranges);
  result = functions_.data_size(&ask);
  return ask.image_bytes;
}

std::unique_ptr<RangeProfiler> RangeProfiler::make(const cupti::CounterFunctions& functions,
                                                   const Metrics& metrics, void* context,
                                                   cupti::RangeKind range,
                                                   cupti::ReplayKind replay,
                                                   cupti::CacheMode caches,
                                                   std::size_t most_ranges, std::size_t most_bytes,
                                                   const char*& function,
                                                   Result& result) {
  std::unique_ptr<RangeProfiler> made(
      new RangeProfiler(functions, metrics, context, range, replay));
  const bool is_plain = caches == cupti::CacheMode::kNone;  // also for those that know no other
  auto enable = is_plain ? cupti::sized(&cupti::RangeEnable::profiler) : cupti::sized(&cupti::RangeEnable::caches);
  enable.caches = caches;
  enable.context = context;
  function = "cuptiRangeProfilerEnable";
  result = functions.enable(&enable);
  if (result != kSuccess) return nullptr;
  made->profiler_ = enable.profiler;
  function = "cuptiRangeProfilerGetCounterDataSize";
  const std::size_t one = std::max<std::size_t>(made->image_bytes(1, result), 1);
  if (result != kSuccess) return nullptr;
  made->most_ranges_ = std::clamp<std::size_t>(most_bytes / one, 1, most_ranges);
  made->bytes_ = made->image_bytes(made->most_ranges_, result);
  return result == kSuccess ? std::move(made) : nullptr;
}

RangeProfiler::~RangeProfiler() {
  if (profiler_ == nullptr) return;
  if (is_started_) stop();
  auto end = cupti::sized(&cupti::RangeOnly::profiler);
  end.profiler = profiler_;
  functions_.disable(&end);
}

bool RangeProfiler::clear(CounterImage& image) const noexcept {
  try {
    image.resize(bytes_);
  } catch (...) {
    return false;
  }
  auto init = cupti::sized(&cupti::RangeDataInit::image);
  init.profiler = profiler_;
  init.image_bytes = image.size();
  init.image = image.data();
  return functions_.data_init(&init) == kSuccess;
}

Result RangeProfiler::use(CounterImage& image) noexcept {
  auto set = cupti::sized(&cupti::RangeConfig::nesting_level);
  set.profiler = profiler_;
  set.config_bytes = metrics_.config().size();
  set.config = metrics_.config().data();
  set.image_bytes = image.size();
  set.image = image.data();
  set.range = range_;
  set.replay = replay_;
  set.max_ranges = most_ranges_;
  set.nesting_levels = 1;
  set.min_nesting_level = 1;
  set.nesting_level = 1;
  return functions_.configure(&set);
}

Result RangeProfiler::start() noexcept {
  auto call = cupti::sized(&cupti::RangeOnly::profiler);
  call.profiler = profiler_;
  const Result result = functions_.start(&call);
  is_started_ = result == kSuccess;
  return result;
}

Result RangeProfiler::stop() noexcept {
  auto call = cupti::sized(&cupti::RangeStop::is_complete);
  call.profiler = profiler_;
  is_started_ = false;
  return functions_.stop(&call);
}

Result RangeProfiler::push(const char* name) noexcept {
  auto call = cupti::sized(&cupti::RangePush::name);
  call.profiler = profiler_;
  call.name = name;
  return functions_.push(&call);
}

Result RangeProfiler::pop() noexcept {
  auto call = cupti::sized(&cupti::RangeOnly::profiler);
  call.profiler = profiler_;
  return functions_.pop(&call);
}

Result RangeProfiler::decode() noexcept {
  auto call = cupti::sized(&cupti::RangeDecode::dropped);
  call.profiler = profiler_;
  return functions_.decode(&call);
}

std::size_t RangeProfiler::ranges(const cupti::CounterFunctions& functions,
                                  const CounterImage& image) noexcept {
  auto ask = cupti::sized(&cupti::RangeDataInfo::ranges);
  ask.image = image.data();
  ask.image_bytes = image.size();
  return functions.data_info(&ask) == kSuccess ? ask.ranges : 0;
}

}  // namespace warpline::agent
