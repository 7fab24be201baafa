// The modules of this process by their addresses, without the loader's lock.
//
// A program's thread must not take that lock on our behalf: it may hold a lock of the program that another
// thread waits for while it has the loader's, in a callback of dl_iterate_phdr, for example. The C library
// has a look-up without locks since version 2.35 (_dl_find_object); before that there is only the lock.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "stack/frame_rules.h"

namespace warpline::agent {

struct LoadedModule {
  stack::ElfImage image;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const char* path = nullptr;  // empty for the program itself
  const ElfW(Dyn)* dynamic = nullptr;
  std::uint64_t identity = 0;  // another module at the same place has another one
};

// Whether this C library has that look-up.
bool finds_modules() noexcept;

// Finds the module with an address; only where finds_modules(). What it returns holds for as long as the module
// is loaded: that of a function on the caller's stack is. Any thread, also in a signal's handler.
bool find_module(std::uint64_t address, LoadedModule& found) noexcept;

// Returns the address of a symbol that a module defines, or 0. As find_module.
std::uint64_t symbol_in(const LoadedModule& module, const char* name) noexcept;

}  // namespace warpline::agent
