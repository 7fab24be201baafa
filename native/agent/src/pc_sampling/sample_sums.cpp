#include "pc_sampling/sample_sums.h"

#include <algorithm>

#include "cupti/records.h"
#include "warpline_records.h"

namespace warpline::agent {
namespace {

constexpr std::string_view kStallStart = "smsp__pcsamp_warps_issue_stalled_";
constexpr std::string_view kNotIssued = "_not_issued";
constexpr std::size_t kMostStalls = 256;

constexpr std::uint64_t key_of(std::uint64_t offset, std::uint8_t stall) { return offset << 8 | stall; }
constexpr std::uint32_t offset_of(std::uint64_t key) { return static_cast<std::uint32_t>(key >> 8); }

}  // namespace

Stall SampleSums::stall_of(std::string_view name) {
  Stall found;
  if (name.starts_with(kStallStart)) {
    name.remove_prefix(kStallStart.size());
    found.is_not_issued = name.ends_with(kNotIssued);
    if (found.is_not_issued) name.remove_suffix(kNotIssued.size());
  }
  auto at = std::find(stalls_.begin(), stalls_.end(), name);
  if (at == stalls_.end() && stalls_.size() < kMostStalls) at = stalls_.emplace(at, name);
  if (at == stalls_.end()) --at;  // there are no such names: CUPTI has 40
  found.number = static_cast<std::uint8_t>(at - stalls_.begin());
  return found;
}

SampleSums::OfDevice& SampleSums::of_device(std::uint32_t device) {
  OfDevice& found = devices_[device];
  found.is_changed = true;
  return found;
}

SampleSums::Counts& SampleSums::counts_of(std::uint32_t device, const cupti::PcSamples& samples) {
  const char* name = samples.function == nullptr ? "" : samples.function;
  return functions_[{device, samples.checksum, name}];
}

void SampleSums::add(std::uint32_t device, const std::vector<Stall>& stalls,
                     const cupti::PcData& data) {
  OfDevice& sums = of_device(device);
  sums.total_samples += data.total_samples;
  sums.dropped_samples += data.dropped_samples;
  sums.non_user_samples += data.non_user_samples;
  sums.is_buffer_full |= data.is_buffer_full != 0;
  Counts* counts = nullptr;
  const cupti::PcSamples* before = nullptr;
  const cupti::PcSamples* const end = data.pcs + std::min(data.count, data.capacity);
  for (const cupti::PcSamples* pc = data.pcs; pc != end; ++pc) {
    // Most often an instruction follows another one of its function.
    const bool is_same = before != nullptr && before->function == pc->function &&
                         before->checksum == pc->checksum;
    if (!is_same) counts = &counts_of(device, *pc);
    before = pc;
    for (std::size_t i = 0; i < std::min(pc->stall_count, stalls.size()); ++i) {
      const cupti::StallSamples& part = pc->stalls[i];
      if (part.samples == 0 || part.stall >= stalls.size()) continue;
      const Stall stall = stalls[part.stall];
      const auto [found, is_new] = counts->try_emplace(key_of(pc->offset, stall.number));
      if (is_new) ++size_;
      (stall.is_not_issued ? found->second.not_issued : found->second.samples) += part.samples;
    }
  }
}

void SampleSums::write() {
  LogLease log = definition_log();
  if (!log) return;
  std::vector<std::uint32_t> stalls;
  for (const std::string& name : stalls_) stalls.push_back(write_kernel_name(*log, name.c_str()));
  for (auto& [function, counts] : functions_) {
    if (counts.empty()) continue;
    const auto& [device, checksum, name] = function;
    const std::uint32_t number = write_kernel_name(*log, name.c_str());
    for (const auto& [key, count] : counts) {
      log->put(raw::PcSample{.function = number,
                             .checksum = checksum,
                             .offset = offset_of(key),
                             .stall = stalls[key & 0xff],
                             .samples = count.samples,
                             .not_issued = count.not_issued,
                             .device = device});
    }
    counts.clear();
  }
  size_ = 0;
  for (auto& [device, sums] : devices_) {
    if (!sums.is_changed) continue;
    log->put(raw::PcSampling{.device = device,
                             .period_cycles = period_cycles_,
                             .modules_left_out = sums.modules_left_out,
                             .total_samples = sums.total_samples,
                             .dropped_samples = sums.dropped_samples,
                             .non_user_samples = sums.non_user_samples,
                             .is_buffer_full = sums.is_buffer_full});
    sums = OfDevice{.is_changed = false};
  }
}

}  // namespace warpline::agent
