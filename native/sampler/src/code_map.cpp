#include "code_map.h"

#include <algorithm>
#include <utility>

namespace warpline::sampler {
namespace {

constexpr std::size_t kMostMappings = 65536;

}  // namespace

void CodeMap::add(CodeMapping mapping) {
  if (mapping.begin >= mapping.end || mappings_.size() >= kMostMappings) return;
  // The new mapping takes the place of what was there before; what it leaves of that stays.
  std::vector<CodeMapping> rest;
  std::erase_if(mappings_, [&](CodeMapping& old) {
    if (old.end <= mapping.begin || mapping.end <= old.begin) return false;
    if (old.begin < mapping.begin) {
      rest.push_back(old);
      rest.back().end = mapping.begin;
    }
    if (mapping.end < old.end) {
      rest.push_back(old);
      rest.back().begin = mapping.end;
    }
    return true;
  });
  rest.push_back(std::move(mapping));
  for (CodeMapping& each : rest) {
    const auto at = std::lower_bound(
        mappings_.begin(), mappings_.end(), each.begin,
        [](const CodeMapping& other, std::uint64_t begin) { return other.begin < begin; });
    mappings_.insert(at, std::move(each));
  }
  last_ = 0;
}

void CodeMap::clear() noexcept {
  mappings_.clear();
  last_ = 0;
}

CodeMapping* CodeMap::find(std::uint64_t address) noexcept {
  const auto holds = [address](const CodeMapping& each) {
    return each.begin <= address && address < each.end;
  };
  if (last_ < mappings_.size() && holds(mappings_[last_])) return &mappings_[last_];
  const auto after = std::upper_bound(
      mappings_.begin(), mappings_.end(), address,
      [](std::uint64_t place, const CodeMapping& each) { return place < each.begin; });
  if (after == mappings_.begin() || !holds(*(after - 1))) return nullptr;
  last_ = static_cast<std::size_t>(after - mappings_.begin()) - 1;
  return &mappings_[last_];
}

void CodeMap::forget_written() noexcept {
  for (CodeMapping& each : mappings_) each.is_written = false;
}

}  // namespace warpline::sampler
