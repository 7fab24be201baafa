#include "json_arguments.h"

#include "json_text.h"

namespace warpline {
namespace {

constexpr std::size_t kLongestRecent = 64;  // longer names are looked up each time

std::size_t place_of(std::string_view name) {
  const auto byte = [&](std::size_t at) { return static_cast<uint8_t>(name[at]); };
  return (name.size() * 31 + byte(0) * 7U + byte(name.size() / 2) * 13U + byte(name.size() - 1)) % 256;
}

}  // namespace

JsonArguments::JsonArguments(const std::vector<std::string> &wanted, bool all) : all_(all) {
  for (const std::string &name : wanted) known_.emplace(name, kNotMet);
}

int32_t JsonArguments::find(std::string_view name, JsonEvents &events) {
  if (name.empty() || name.size() > kLongestRecent) return look_up(name, events);
  Recent &recent = recent_[place_of(name)];
  if (recent.is_used && recent.name == name) return recent.found;
  recent.found = look_up(name, events);
  recent.name = name;
  recent.is_used = true;
  return recent.found;
}

int32_t JsonArguments::look_up(std::string_view written, JsonEvents &events) {
  std::string room;
  const std::string_view name = repaired_utf8(written, room);
  const auto known = known_.find(name);
  if (known != known_.end()) {
    if (known->second == kNotMet) known->second = events.add_argument(name);
    return known->second;
  }
  if (!all_) return kUnwanted;
  if (known_.size() >= kMost) return kTooMany;
  const int32_t added = events.add_argument(name);
  known_.emplace(name, added);
  return added;
}

}  // namespace warpline
