#include "pc_sampling/context_sampler.h"

#include <algorithm>
#include <iterator>

namespace warpline::agent {
namespace {

using cupti::PcSetting;
using cupti::PcSettingValue;

// As many as large training programs are seen to execute in a second. What is beyond is taken by a
// further call, but at the end, when only this much can be.
constexpr std::size_t kInstructions = 16384;
constexpr int kMostCalls = 256;  // at a time
// CUPTI's worker empties the GPU's buffer so often. At 2^12 cycles, four times the default's rate, an
// H200 filled no 128 MB meanwhile; CUPTI's own default is 512 MB.
constexpr std::uint32_t kWorkerSleepMs = 20;
constexpr std::size_t kHardwareBufferBytes = 64u << 20;
constexpr std::size_t kScratchBytes = 16u << 20;  // for kInstructions with many stall reasons

PcSettingValue setting_of(PcSetting setting) noexcept {
  PcSettingValue value{};
  value.setting = setting;
  return value;
}

PcSettingValue number_of(PcSetting setting, std::uint32_t number) noexcept {
  PcSettingValue value = setting_of(setting);
  value.number = number;
  return value;
}

PcSettingValue size_of(PcSetting setting, std::size_t size) noexcept {
  PcSettingValue value = setting_of(setting);
  value.size = size;
  return value;
}

}  // namespace

PcBuffer::PcBuffer(std::size_t instructions, std::size_t stalls)
    : stalls_each_(stalls), stalls_(instructions * stalls), pcs_(instructions) {}

cupti::PcData& PcBuffer::clear() noexcept {
  for (std::size_t i = 0; i < pcs_.size(); ++i) {
    pcs_[i] = {};
    pcs_[i].bytes = sizeof(cupti::PcSamples);
    pcs_[i].stalls = stalls_.data() + i * stalls_each_;
  }
  data_ = {};
  data_.bytes = sizeof(cupti::PcData);
  data_.capacity = pcs_.size();
  data_.pcs = pcs_.data();
  return data_;
}

std::unique_ptr<ContextSampler> ContextSampler::make(const cupti::PcFunctions& functions,
                                                     void* context, std::uint32_t device,
                                                     std::uint32_t period_exponent,
                                                     const char*& function,
                                                     cupti::Result& result) {
  std::unique_ptr<ContextSampler> made(new ContextSampler(functions, context, device));
  auto enable = cupti::sized(&cupti::PcContext::context);
  enable.context = context;
  function = "cuptiPCSamplingEnable";
  result = functions.enable(&enable);
  if (result != cupti::kSuccess) return nullptr;
  made->is_on_ = true;
  result = made->read_stalls(function);
  if (result == cupti::kSuccess) {
    made->rest_ = std::make_unique<PcBuffer>(kInstructions, made->names_.size());
    made->taken_ = std::make_unique<PcBuffer>(kInstructions, made->names_.size());
    function = "cuptiPCSamplingSetConfigurationAttribute";
    result = made->configure(period_exponent);
  }
  if (result == cupti::kSuccess) return made;
  made->is_on_ = functions.disable(&enable) != cupti::kSuccess;  // the parameters are the same
  return nullptr;
}

ContextSampler::~ContextSampler() {
  if (is_on_) static_cast<void>(rest_.release());
}

cupti::Result ContextSampler::read_stalls(const char*& function) {
  std::size_t count = 0;
  auto ask_count = cupti::sized(&cupti::PcStallCount::count);
  ask_count.context = context_;
  ask_count.count = &count;
  function = "cuptiPCSamplingGetNumStallReasons";
  if (const cupti::Result result = functions_.stall_count(&ask_count); result != cupti::kSuccess) {
    return result;
  }
  indexes_.resize(count);
  std::vector<char> texts(count * cupti::kStallNameBytes);
  std::vector<char*> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(&texts[i * cupti::kStallNameBytes]);
  auto ask = cupti::sized(&cupti::PcStalls::names);
  ask.context = context_;
  ask.count = count;
  ask.indexes = indexes_.data();
  ask.names = names.data();
  function = "cuptiPCSamplingGetStallReasons";
  const cupti::Result result = functions_.stalls(&ask);
  if (result == cupti::kSuccess) names_.assign(names.begin(), names.end());
  return result;
}

cupti::Result ContextSampler::configure(std::uint32_t period_exponent) {
  PcSettingValue stalls = setting_of(PcSetting::kStalls);
  stalls.stalls.count = indexes_.size();
  stalls.stalls.indexes = indexes_.data();
  PcSettingValue buffer = setting_of(PcSetting::kDataBuffer);
  buffer.buffer = &rest_->clear();
  PcSettingValue values[] = {
      number_of(PcSetting::kPeriod, period_exponent),
      number_of(PcSetting::kMode, cupti::kContinuous),
      buffer,
      stalls,
      size_of(PcSetting::kHardwareBufferBytes, kHardwareBufferBytes),
      size_of(PcSetting::kScratchBytes, kScratchBytes),
      number_of(PcSetting::kWorkerSleepMs, kWorkerSleepMs),
      number_of(PcSetting::kStartStop, 0),
  };
  auto config = cupti::sized(&cupti::PcConfig::values);
  config.context = context_;
  config.count = std::size(values);
  config.values = values;
  return functions_.configure(&config);
}

const std::vector<Stall>& ContextSampler::stalls(SampleSums& sums) {
  if (stalls_.empty() && !indexes_.empty()) {
    stalls_.resize(*std::max_element(indexes_.begin(), indexes_.end()) + std::size_t{1});
    for (std::size_t i = 0; i < indexes_.size(); ++i) stalls_[indexes_[i]] = sums.stall_of(names_[i]);
  }
  return stalls_;
}

cupti::Result ContextSampler::collect(SampleSums& sums) {
  auto take = cupti::sized(&cupti::PcTake::data);
  take.context = context_;
  if (has_failed_) return cupti::kSuccess;
  for (int call = 0; call < kMostCalls; ++call) {
    cupti::PcData& data = taken_->clear();
    take.data = &data;
    const cupti::Result result = functions_.take(&take);
    if (result == cupti::kOutOfMemory) data.is_buffer_full = 1;
    has_failed_ = result != cupti::kSuccess && result != cupti::kOutOfMemory;
    if (has_failed_) return result;
    sums.add(device_, stalls(sums), data);
    if (data.remaining == 0) break;
  }
  return cupti::kSuccess;
}

cupti::Result ContextSampler::end(SampleSums& sums) {
  if (has_failed_) return cupti::kSuccess;
  auto disable = cupti::sized(&cupti::PcContext::context);
  disable.context = context_;
  const cupti::Result result = functions_.disable(&disable);
  is_on_ = result != cupti::kSuccess;
  if (!is_on_) sums.add(device_, stalls(sums), rest_->data());
  return result;
}

}  // namespace warpline::agent
