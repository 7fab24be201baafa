// Which launches of kernels are counted: the filters of ncu, and samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "counters/kernel_names.h"
#include "session/config.h"

namespace warpline::agent {

struct LaunchFacts {
  const char* mangled;
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t device;
  std::uint32_t shared_bytes;
  bool is_in_range;  // in the NVTX ranges and capture ranges that are asked for
};

enum class Choice : std::uint8_t {
  kCount,
  kSkip,     // not wanted, but no harm if it is counted with others
  kLater,    // the same, and no launch of this kernel, grid and block will be wanted in this burst
  kNever,    // the same, and no launch of this kernel, grid and block will be wanted
  kExclude,  // never to be counted: it may wait for another kernel
};

// One thread at a time.
class LaunchFilter {
 public:
  // Returns null, and the reason, if an expression is invalid.
  static std::unique_ptr<LaunchFilter> make(const CounterConfig& config, std::string& problem);

  // Chooses; each launch once, in order. Bursts have numbers from 1.
  Choice choose(const LaunchFacts& launch, std::uint32_t burst);

  // Whether no launch will be counted any more.
  bool is_done() const noexcept {
    return mode_ == FilterMode::kGlobal && count_ != 0 && all_.taken >= count_;
  }

 private:
  // A name, an expression, or all.
  struct Matcher {
    std::string name;
    std::optional<std::regex> expression;
    bool is_any = true;

    bool matches(const std::string& text) const;
  };
  struct KernelId {
    std::string context;
    std::string stream;
    Matcher name;
    std::optional<std::regex> invocation;  // all of the number must match
  };
  // Launches so far; of all, or of those that are filtered by themselves.
  struct Tally {
    std::uint64_t seen = 0;
    std::uint64_t skipped = 0;
    std::uint64_t taken = 0;
    std::vector<std::unordered_map<std::string, std::uint64_t>> calls;  // by id, then by kernel
  };
  struct Kernel {
    std::string name;  // of the base that is compared
    bool is_excluded = false;
    bool matches_name = false;
  };

  struct Samples {
    std::uint64_t taken = 0;
    std::uint32_t burst = 0;  // of the last one
    std::uint64_t in_burst = 0;
  };

  static Matcher matcher_of(std::string_view text);
  static KernelId id_of(std::string_view text);
  const Kernel& kernel_of(const char* mangled);
  Tally& tally_of(const LaunchFacts& launch);
  bool matches_id(const Kernel& kernel, const LaunchFacts& launch, Tally& tally) const;

  NameBase base_ = NameBase::kFunction;
  Matcher name_;
  std::optional<std::regex> exclude_;
  std::vector<KernelId> ids_;
  std::uint64_t skip_before_match_ = 0;
  std::uint64_t skip_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t sample_ = 0;
  std::uint64_t sample_of_burst_ = 0;
  FilterMode mode_ = FilterMode::kGlobal;
  Tally all_;
  std::unordered_map<std::string, Tally> tallies_;  // by GPU, or by grid, block and shared memory
  std::unordered_map<std::string, Kernel> kernels_;         // by mangled name
  std::unordered_map<std::string, Samples> samples_;  // by kernel, grid and block
};

}  // namespace warpline::agent
