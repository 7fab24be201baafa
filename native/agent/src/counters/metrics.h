// The metrics of a session on one chip: what is to be programmed, and values from counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "counters/abi.h"
#include "cupti/library.h"

namespace warpline::agent {

class Metrics {
 public:
  // Plans the metrics for a context's chip. Metrics that the chip lacks are left out, and named in
  // `unknown`. Returns null, and the reason, if counters cannot be used there.
  static std::unique_ptr<Metrics> make(const cupti::Functions& base,
                                       const cupti::CounterFunctions& functions, void* context,
                                       std::uint32_t device, const std::vector<std::string>& wanted,
                                       std::string& unknown, std::string& problem);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  const std::string& chip() const noexcept { return chip_; }
  std::size_t passes() const noexcept { return passes_; }
  std::size_t size() const noexcept { return names_.size(); }
  const char** names() const noexcept { return const_cast<const char**>(names_.data()); }
  // A metric's number among those wanted.
  std::uint32_t number(std::size_t index) const noexcept { return numbers_[index]; }
  const std::vector<std::uint8_t>& config() const noexcept { return config_; }

  // Computes the values of a range of a counter data image. One thread at a time.
  bool evaluate(const std::vector<std::uint8_t>& image, std::size_t range,
                std::vector<double>& values) const noexcept;

 private:
  explicit Metrics(const cupti::CounterFunctions& functions) : functions_(functions) {}
  cupti::Result add(const char** names, std::size_t count) const noexcept;
  cupti::Result build_config() noexcept;
  cupti::Result open_host() noexcept;
  void close_host() noexcept;

  cupti::CounterFunctions functions_;
  std::string chip_;
  std::vector<std::uint8_t> availability_;
  void* host_ = nullptr;
  std::vector<std::string> texts_;
  std::vector<const char*> names_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint8_t> config_;
  std::size_t passes_ = 0;
};

}  // namespace warpline::agent
