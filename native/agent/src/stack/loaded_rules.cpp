#include "stack/loaded_rules.h"

#include <link.h>

#include <cstddef>

namespace warpline::agent {
namespace {

struct RuleSearch {
  std::uint64_t place;
  stack::FrameRule rule;
};

// The loader's lock is held: the module stays.
int search_module(dl_phdr_info* module, std::size_t, void* data) noexcept {
  RuleSearch& search = *static_cast<RuleSearch*>(data);
  const stack::ElfImage image{module->dlpi_phdr, module->dlpi_phnum, module->dlpi_addr, false};
  if (!stack::holds(image, search.place)) return 0;
  search.rule = stack::frame_rule_in(image, search.place);
  return 1;
}

int read_unloaded(dl_phdr_info* module, std::size_t, void* data) noexcept {
  *static_cast<std::uint64_t*>(data) = module->dlpi_subs;
  return 1;
}

}  // namespace

stack::FrameRule frame_rule_at(std::uint64_t instruction) noexcept {
  RuleSearch search{instruction, {}};
  dl_iterate_phdr(search_module, &search);
  return search.rule;
}

std::uint64_t modules_unloaded() noexcept {
  std::uint64_t count = 0;
  dl_iterate_phdr(read_unloaded, &count);
  return count;
}

}  // namespace warpline::agent
