// The samples of this process, added up by instruction and stall reason until they are written down.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pc_sampling/abi.h"
#include "session/thread_log.h"

namespace warpline::agent {

// What an index of CUPTI's stands for: a stall reason, or the part of one that a scheduler's idle cycles
// have.
struct Stall {
  std::uint8_t number = 0;  // of SampleSums
  bool is_not_issued = false;
};

// One thread at a time.
class SampleSums {
 public:
  explicit SampleSums(std::uint32_t period_cycles) : period_cycles_(period_cycles) {}

  // Returns the stall reason of CUPTI's name, such as smsp__pcsamp_warps_issue_stalled_wait.
  Stall stall_of(std::string_view name);

  // Takes what CUPTI returned of a device, whose stall reasons are known by their index.
  void add(std::uint32_t device, const std::vector<Stall>& stalls, const cupti::PcData& data);
  // A module was loaded whose code is not kept.
  void leave_out_module(std::uint32_t device) { of_device(device).modules_left_out += 1; }
  // Makes a device known, also without samples.
  void see_device(std::uint32_t device) { of_device(device); }

  // How many sums there are that are not written down.
  std::size_t size() const noexcept { return size_; }
  // Writes down what was added since the last time.
  void write();

 private:
  struct Count {
    std::uint64_t samples = 0;
    std::uint64_t not_issued = 0;
  };
  using Counts = std::unordered_map<std::uint64_t, Count>;  // by offset and stall reason
  using Function = std::tuple<std::uint32_t, std::uint64_t, std::string>;  // device, checksum, name
  struct OfDevice {
    std::uint64_t total_samples = 0;
    std::uint64_t dropped_samples = 0;
    std::uint64_t non_user_samples = 0;
    std::uint32_t modules_left_out = 0;
    bool is_buffer_full = false;
    bool is_changed = true;
  };

  OfDevice& of_device(std::uint32_t device);
  Counts& counts_of(std::uint32_t device, const cupti::PcSamples& samples);

  std::uint32_t period_cycles_;
  std::vector<std::string> stalls_;  // names, by number
  std::map<Function, Counts> functions_;
  std::map<std::uint32_t, OfDevice> devices_;
  std::size_t size_ = 0;
};

}  // namespace warpline::agent
