// The names that a kernel goes by.
#pragma once

#include <string>
#include <string_view>

namespace warpline::agent {

enum class NameBase { kFunction, kDemangled, kMangled };

NameBase name_base_of(std::string_view word) noexcept;

// Returns a kernel's name: as it is, demangled, or its function's without namespaces, template
// arguments and parameters.
std::string kernel_name(const char* mangled, NameBase base);

}  // namespace warpline::agent
