#include "stack/loaded_rules.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "stack/loaded_modules.h"
#include "stack/code_rules.h"

namespace warpline::agent {
namespace {

// Modules that rules were learned of. A place that another one has taken tells that the first was unloaded.
// Threads read and write it at will: at worst a module is looked at twice.
struct SeenModule {
  std::atomic<std::uint64_t> identity;
  std::atomic<std::uint64_t> begin;
  std::atomic<std::uint64_t> end;
};
constexpr std::size_t kMostSeen = 2048;
SeenModule g_seen[kMostSeen];
std::atomic<std::size_t> g_seen_count{0};
std::atomic<std::uint64_t> g_unloaded{0};

void see(SeenModule& seen, const LoadedModule& module) noexcept {
  seen.begin.store(module.begin, std::memory_order_relaxed);
  seen.end.store(module.end, std::memory_order_relaxed);
  seen.identity.store(module.identity, std::memory_order_release);
}

// Returns whether the module has taken the place of another one.
bool see(const LoadedModule& module) noexcept {
  const std::size_t count = std::min(g_seen_count.load(std::memory_order_acquire), kMostSeen);
  bool is_new = true;
  for (std::size_t i = 0; i < count; ++i) {
    SeenModule& seen = g_seen[i];
    if (seen.identity.load(std::memory_order_acquire) == module.identity) return false;
    const bool overlaps = seen.begin.load(std::memory_order_relaxed) < module.end &&
                          module.begin < seen.end.load(std::memory_order_relaxed);
    if (!overlaps) continue;
    see(seen, module);
    is_new = false;
  }
  if (!is_new) return true;
  const std::size_t place = g_seen_count.fetch_add(1, std::memory_order_acq_rel);
  if (place < kMostSeen) see(g_seen[place], module);
  return false;
}

// ---- with the loader's lock

// Asks the module that a place is in; returns nothing found where there is none. The loader's lock is held
// meanwhile: the module stays.
template <class Answer>
struct Question {
  Answer (*ask)(const stack::ElfImage& image, std::uint64_t place) noexcept;
  std::uint64_t place;
  Answer answer{};

  Answer answered() noexcept {
    dl_iterate_phdr(ask_module, this);
    return answer;
  }

  static int ask_module(dl_phdr_info* module, std::size_t, void* data) noexcept {
    Question& question = *static_cast<Question*>(data);
    const stack::ElfImage image{module->dlpi_phdr, module->dlpi_phnum, module->dlpi_addr, false};
    if (!stack::holds(image, question.place)) return 0;
    question.answer = question.ask(image, question.place);
    return 1;
  }
};

int read_unloaded(dl_phdr_info* module, std::size_t, void* data) noexcept {
  *static_cast<std::uint64_t*>(data) = module->dlpi_subs;
  return 1;
}

}  // namespace

stack::FrameRule frame_rule_at(std::uint64_t instruction, StackOf whose) noexcept {
  if (whose == StackOf::kCaller && finds_modules()) {
    LoadedModule module;
    if (!find_module(instruction, module)) return {};
    return stack::frame_rule_in(module.image, instruction);
  }
  const auto by_tables = [](const stack::ElfImage& image, std::uint64_t place) noexcept {
    return stack::frame_rule_in(image, place);
  };
  return Question<stack::FrameRule>{by_tables, instruction}.answered();
}

stack::FrameRule code_rule_at(std::uint64_t instruction) noexcept {
  return Question<stack::FrameRule>{stack::frame_rule_by_code, instruction}.answered();
}

bool may_return_to(std::uint64_t address) noexcept {
  return Question<bool>{stack::is_behind_call, address}.answered();
}

bool modules_were_unloaded(std::uint64_t instruction, StackOf whose) noexcept {
  if (whose == StackOf::kCaller && finds_modules()) {
    LoadedModule module;
    return find_module(instruction, module) && see(module);
  }
  std::uint64_t count = 0;
  dl_iterate_phdr(read_unloaded, &count);
  return g_unloaded.exchange(count, std::memory_order_relaxed) != count;
}

}  // namespace warpline::agent
