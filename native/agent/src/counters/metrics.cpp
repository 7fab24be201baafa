#include "counters/metrics.h"

#include "counters/library.h"
#include "cupti/setup.h"

namespace warpline::agent {
namespace {

using cupti::kSuccess;
using cupti::Result;

// The image that says which counters this context may use: the first call that needs rights.
Result read_availability(const cupti::CounterFunctions& f, void* context,
                         std::vector<std::uint8_t>& image) {
  auto ask = cupti::sized(&cupti::CounterAvailability::image);
  ask.context = context;
  Result result = f.availability(&ask);
  if (result != kSuccess) return result;
  image.resize(ask.image_bytes);
  ask.image = image.data();
  return f.availability(&ask);
}

}  // namespace

Metrics::~Metrics() { close_host(); }

Result Metrics::open_host() noexcept {
  auto init = cupti::sized(&cupti::HostInit::host);
  init.type = cupti::kForRanges;
  init.chip = chip_.c_str();
  init.availability = availability_.data();
  const Result result = functions_.host_init(&init);
  host_ = result == kSuccess ? init.host : nullptr;
  return result;
}

void Metrics::close_host() noexcept {
  if (host_ == nullptr) return;
  auto end = cupti::sized(&cupti::HostOnly::host);
  end.host = host_;
  functions_.host_end(&end);
  host_ = nullptr;
}

Result Metrics::add(const char** names, std::size_t count) const noexcept {
  auto metrics = cupti::sized(&cupti::HostMetrics::count);
  metrics.host = host_;
  metrics.names = names;
  metrics.count = count;
  return functions_.host_add(&metrics);
}

Result Metrics::build_config() noexcept {
  auto size = cupti::sized(&cupti::HostConfigSize::image_bytes);
  size.host = host_;
  Result result = functions_.host_config_size(&size);
  if (result != kSuccess) return result;
  config_.resize(size.image_bytes);
  auto get = cupti::sized(&cupti::HostConfig::image);
  get.host = host_;
  get.image_bytes = config_.size();
  get.image = config_.data();
  result = functions_.host_config(&get);
  if (result != kSuccess) return result;
  auto passes = cupti::sized(&cupti::HostPasses::passes);
  passes.image_bytes = config_.size();
  passes.image = config_.data();
  result = functions_.host_passes(&passes);
  passes_ = passes.passes;
  return result;
}

std::unique_ptr<Metrics> Metrics::make(const cupti::Functions& base,
                                       const cupti::CounterFunctions& functions, void* context,
                                       std::uint32_t device, const std::vector<std::string>& wanted,
                                       std::string& unknown, std::string& problem) {
  std::unique_ptr<Metrics> made(new Metrics(functions));
  const auto refuse = [&](const char* function, Result result) {
    problem = refusal_of(base, function, result);
    return nullptr;
  };
  auto init = cupti::sized(&cupti::CountersInit::reserved);
  if (const Result result = functions.initialize(&init); result != kSuccess) {
    return refuse("cuptiProfilerInitialize", result);
  }
  auto chip = cupti::sized(&cupti::ChipName::name);
  chip.device = device;
  Result result = functions.chip_name(&chip);
  if (result != kSuccess || chip.name == nullptr) return refuse("cuptiDeviceGetChipName", result);
  made->chip_ = chip.name;
  result = read_availability(functions, context, made->availability_);
  if (result != kSuccess) return refuse("cuptiProfilerGetCounterAvailability", result);
  result = made->open_host();
  if (result != kSuccess) return refuse("cuptiProfilerHostInitialize", result);
  for (const std::string& text : wanted) made->texts_.push_back(text.substr(0, text.find(' ')));
  for (const std::string& text : made->texts_) made->names_.push_back(text.c_str());
  for (std::uint32_t i = 0; i < made->names_.size(); ++i) made->numbers_.push_back(i);
  if (made->add(made->names(), made->size()) != kSuccess) {
    // One unknown name fails all: leave it out. What was added before an error is not known.
    made->close_host();
    std::vector<const char*> known;
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < made->names_.size(); ++i) {
      if (made->open_host() != kSuccess) break;
      const char* name = made->names_[i];
      if (made->add(&name, 1) == kSuccess) {
        known.push_back(name);
        numbers.push_back(i);
      } else {
        unknown += (unknown.empty() ? "" : ", ") + made->texts_[i];
      }
      made->close_host();
    }
    made->names_ = known;
    made->numbers_ = numbers;
    if (known.empty()) {
      problem = "this GPU (" + made->chip_ + ") offers none of the metrics: " + unknown;
      return nullptr;
    }
    result = made->open_host();
    if (result == kSuccess) result = made->add(made->names(), made->size());
    if (result != kSuccess) return refuse("cuptiProfilerHostConfigAddMetrics", result);
  }
  result = made->build_config();
  if (result != kSuccess) return refuse("cuptiProfilerHostGetConfigImage", result);
  return made;
}

bool Metrics::evaluate(const std::vector<std::uint8_t>& image, std::size_t range,
                       std::vector<double>& values) const noexcept {
  auto ask = cupti::sized(&cupti::HostValues::values);
  ask.host = host_;
  ask.image = image.data();
  ask.image_bytes = image.size();
  ask.range = range;
  ask.names = names();
  ask.count = size();
  ask.values = values.data();
  return functions_.host_values(&ask) == kSuccess;
}

}  // namespace warpline::agent
