// Sampling of program counters in one context.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pc_sampling/abi.h"
#include "pc_sampling/sample_sums.h"

namespace warpline::agent {

// Room for what CUPTI returns of so many instructions.
class PcBuffer {
 public:
  PcBuffer(std::size_t instructions, std::size_t stalls);

  // Returns it without any.
  cupti::PcData& clear() noexcept;
  const cupti::PcData& data() const noexcept { return data_; }

 private:
  std::size_t stalls_each_;
  std::vector<cupti::StallSamples> stalls_;
  std::vector<cupti::PcSamples> pcs_;
  cupti::PcData data_{};
};

// One thread at a time.
class ContextSampler {
 public:
  // Begins to sample. Returns null, with the function that failed and its result, if that cannot be.
  static std::unique_ptr<ContextSampler> make(const cupti::PcFunctions& functions, void* context,
                                              std::uint32_t device, std::uint32_t period_exponent,
                                              const char*& function, cupti::Result& result);
  // What CUPTI may write into stays, if it did not end sampling.
  ~ContextSampler();
  ContextSampler(const ContextSampler&) = delete;
  ContextSampler& operator=(const ContextSampler&) = delete;

  void* context() const noexcept { return context_; }
  std::uint32_t device() const noexcept { return device_; }
  std::size_t stall_count() const noexcept { return names_.size(); }

  // Adds to sums what CUPTI has by now. Does not wait for the GPU. Returns CUPTI's result; after a
  // failure nothing more is asked for.
  cupti::Result collect(SampleSums& sums);
  // Ends sampling and adds the rest, for which there is room if everything else was collected. Returns
  // CUPTI's result.
  cupti::Result end(SampleSums& sums);

 private:
  ContextSampler(const cupti::PcFunctions& functions, void* context, std::uint32_t device)
      : functions_(functions), context_(context), device_(device) {}
  cupti::Result read_stalls(const char*& function);
  cupti::Result configure(std::uint32_t period_exponent);
  const std::vector<Stall>& stalls(SampleSums& sums);

  cupti::PcFunctions functions_;
  void* context_;
  std::uint32_t device_;
  std::vector<std::uint32_t> indexes_;  // of stall reasons,
  std::vector<std::string> names_;      // and their names
  std::vector<Stall> stalls_;           // by index; empty until they are needed
  bool is_on_ = false;       // in CUPTI
  bool has_failed_ = false;
  std::unique_ptr<PcBuffer> rest_;      // CUPTI fills it at the end
  std::unique_ptr<PcBuffer> taken_;
};

}  // namespace warpline::agent
