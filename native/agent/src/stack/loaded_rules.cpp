#include "stack/loaded_rules.h"

#include <link.h>

#include <cstddef>

#include "stack/code_rules.h"

namespace warpline::agent {
namespace {

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

stack::FrameRule frame_rule_at(std::uint64_t instruction) noexcept {
  return Question<stack::FrameRule>{stack::frame_rule_in, instruction}.answered();
}

stack::FrameRule code_rule_at(std::uint64_t instruction) noexcept {
  return Question<stack::FrameRule>{stack::frame_rule_by_code, instruction}.answered();
}

bool may_return_to(std::uint64_t address) noexcept {
  return Question<bool>{stack::is_behind_call, address}.answered();
}

std::uint64_t modules_unloaded() noexcept {
  std::uint64_t count = 0;
  dl_iterate_phdr(read_unloaded, &count);
  return count;
}

}  // namespace warpline::agent
