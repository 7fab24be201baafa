// The references of loaded modules to functions of others: the entries of their global offset tables and
// other pointers that the loader fills in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpline::agent {

// A pointer of a module that the loader fills in with the address of a function.
struct Reference {
  std::string_view function;
  void** place;
  void* target;     // what is there: the function, or code of the module that is to look it up
  bool is_lazy;     // that code: it will put the function's address there at the first call
};

// What to do with references.
struct Replacing {
  bool (*wants)(std::string_view function) noexcept;
  void* (*replace)(const Reference& reference) noexcept;  // what to write in its place, or null
  bool (*leaves_out)(std::string_view path) noexcept;     // modules not to look at
};

// Replaces references of modules that were loaded since the last call; never this library's own. Not for
// two threads at a time. Returns how many could not be written.
std::size_t replace_new_references(const Replacing& replacing) noexcept;

// From now on all modules are new.
void forget_modules() noexcept;

}  // namespace warpline::agent
