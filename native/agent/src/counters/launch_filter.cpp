#include "counters/launch_filter.h"

#include <cstring>

#include "session/expression.h"

namespace warpline::agent {
namespace {

constexpr std::string_view kRegex = "regex:";

}  // namespace

bool LaunchFilter::Matcher::matches(const std::string& text) const {
  if (is_any) return true;
  return expression ? is_found(*expression, text) : text == name;
}

LaunchFilter::Matcher LaunchFilter::matcher_of(std::string_view text) {
  Matcher matcher;
  matcher.is_any = text.empty();
  if (text.starts_with(kRegex)) {
    matcher.expression = compiled(text.substr(kRegex.size()));
  } else {
    matcher.name = text;
  }
  return matcher;
}

// CONTEXT:STREAM:NAME:INVOCATION, where the name may have colons.
LaunchFilter::KernelId LaunchFilter::id_of(std::string_view text) {
  const std::size_t first = std::min(text.find(':'), text.size());
  const std::size_t second = std::min(text.find(':', first + 1), text.size());
  const std::size_t last = text.rfind(':');
  if (second == text.size() || last <= second) throw std::regex_error(std::regex_constants::error_collate);
  KernelId id;
  id.context = text.substr(0, first);
  id.stream = text.substr(first + 1, second - first - 1);
  id.name = matcher_of(text.substr(second + 1, last - second - 1));
  if (last + 1 < text.size()) id.invocation = compiled(text.substr(last + 1));
  return id;
}

std::unique_ptr<LaunchFilter> LaunchFilter::make(const CounterConfig& config,
                                                 std::string& problem) {
  auto filter = std::make_unique<LaunchFilter>();
  const std::string* part = nullptr;
  try {
    filter->base_ = name_base_of(config.name_base);
    part = &config.name_regex;
    filter->name_ = config.name_regex.empty() ? Matcher{config.name, {}, config.name.empty()}
                                              : Matcher{{}, compiled(config.name_regex), false};
    part = &config.exclude;
    if (!config.exclude.empty()) filter->exclude_ = compiled(config.exclude);
    for (const std::string& id : config.kernel_ids) {
      part = &id;
      filter->ids_.push_back(id_of(id));
    }
  } catch (const std::regex_error&) {
    problem = "invalid filter " + *part;
    return nullptr;
  }
  filter->skip_before_match_ = config.skip_before_match;
  filter->skip_ = config.skip;
  filter->count_ = config.count;
  filter->sample_ = config.sample;
  filter->mode_ = config.mode;
  filter->sample_of_burst_ = config.burst;
  return filter;
}

const LaunchFilter::Kernel& LaunchFilter::kernel_of(const char* mangled) {
  const auto [entry, is_new] = kernels_.try_emplace(mangled);
  Kernel& kernel = entry->second;
  if (is_new) {
    kernel.name = kernel_name(mangled, base_);
    kernel.is_excluded = exclude_ && is_found(*exclude_, mangled);
    kernel.matches_name = name_.matches(kernel.name);
  }
  return kernel;
}

// The tally that skip and count are compared with.
LaunchFilter::Tally& LaunchFilter::tally_of(const LaunchFacts& launch) {
  const auto bytes = [](const auto& field) {
    return std::string_view(reinterpret_cast<const char*>(&field), sizeof field);
  };
  std::string key;
  switch (mode_) {
    case FilterMode::kGlobal: return all_;
    case FilterMode::kPerGpu: key = bytes(launch.device); break;
    case FilterMode::kPerLaunchConfig:
      key.append(bytes(launch.grid)).append(bytes(launch.block)).append(bytes(launch.shared_bytes));
      break;
  }
  return tallies_[key];
}

bool LaunchFilter::matches_id(const Kernel& kernel, const LaunchFacts& launch, Tally& tally) const {
  if (ids_.empty()) return true;
  tally.calls.resize(ids_.size());
  bool is_any = false;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const KernelId& id = ids_[i];
    const auto is = [](const std::string& wanted, std::uint32_t number) {
      return wanted.empty() || wanted == std::to_string(number);
    };
    if (!is(id.context, launch.context) || !is(id.stream, launch.stream)) continue;
    if (!id.name.matches(kernel.name)) continue;
    const std::uint64_t call = ++tally.calls[i][kernel.name];
    is_any = is_any || !id.invocation || std::regex_match(std::to_string(call), *id.invocation);
  }
  return is_any;
}

Choice LaunchFilter::choose(const LaunchFacts& launch, std::uint32_t burst) {
  const Kernel& kernel = kernel_of(launch.mangled);
  if (kernel.is_excluded) return Choice::kExclude;
  Tally& own = tally_of(launch);
  // Of each GPU only skip and count are applied by themselves, of each launch configuration all filters.
  Tally& shared = mode_ == FilterMode::kPerGpu ? all_ : own;
  if (shared.seen < skip_before_match_) {
    ++shared.seen;
    return Choice::kSkip;
  }
  if (!kernel.matches_name || is_done()) return Choice::kNever;
  if (!launch.is_in_range || (count_ != 0 && own.taken >= count_)) return Choice::kSkip;
  if (!matches_id(kernel, launch, shared)) return Choice::kSkip;
  if (own.skipped < skip_) {
    ++own.skipped;
    return Choice::kSkip;
  }
  if (sample_ != 0) {
    std::string key(reinterpret_cast<const char*>(launch.grid), sizeof launch.grid);
    key.append(reinterpret_cast<const char*>(launch.block), sizeof launch.block);
    key += launch.mangled;
    Samples& samples = samples_[key];
    if (samples.taken >= sample_) return Choice::kNever;
    if (samples.burst != burst) samples.in_burst = 0;
    if (sample_of_burst_ != 0 && samples.in_burst >= sample_of_burst_) return Choice::kLater;
    samples.burst = burst;
    ++samples.in_burst;
    ++samples.taken;
  }
  ++own.taken;
  return Choice::kCount;
}

}  // namespace warpline::agent
