#include "counters/kernel_names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace warpline::agent {
namespace {

struct Free {
  void operator()(char* text) const noexcept { std::free(text); }
};

std::string demangled(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status));
  return status == 0 && text != nullptr ? text.get() : mangled;
}

bool is_opening(char c) { return c == '<' || c == '(' || c == '[' || c == '{'; }
bool is_closing(char c) { return c == '>' || c == ')' || c == ']' || c == '}'; }

constexpr std::string_view kAnonymous = "(anonymous namespace)";

// The base name of "void space::name<arguments>(parameters) [clone x]".
std::string function_of(std::string_view name) {
  std::size_t begin = 0;
  std::size_t end = name.size();
  int depth = 0;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (depth == 0 && name.substr(at).starts_with(kAnonymous)) {
      at += kAnonymous.size() - 1;
      continue;
    }
    const char c = name[at];
    if (depth == 0 && c == '(') {
      if (end == name.size()) end = at;
      break;
    }
    if (depth == 0 && (c == ' ' || c == ':')) {
      begin = at + 1;
      end = name.size();
    } else if (is_opening(c)) {
      if (depth++ == 0) end = at;
    } else if (is_closing(c) && depth > 0) {
      --depth;
    }
  }
  return std::string(name.substr(begin, end - begin));
}

}  // namespace

NameBase name_base_of(std::string_view word) noexcept {
  if (word == "demangled") return NameBase::kDemangled;
  return word == "mangled" ? NameBase::kMangled : NameBase::kFunction;
}

std::string kernel_name(const char* mangled, NameBase base) {
  if (base == NameBase::kMangled) return mangled;
  const std::string text = demangled(mangled);
  return base == NameBase::kDemangled ? text : function_of(text);
}

}  // namespace warpline::agent
