// Instances of NVTX that are bound from outside, as they have looked for a tool before there was one.
#pragma once

#include "nvtx/abi.h"

namespace warpline::agent::nvtx {

// Where the tables of an instance are.
struct Tables {
  const void* context;
  bool (*find)(const void* context, Module module, FunctionTable& table, unsigned& size) noexcept;
};

// Writes our functions to the places that the tables name. Those that end ranges come first: a thread that
// calls meanwhile never begins one whose end is not seen. Returns whether the instance has ranges.
bool write_functions(const Tables& tables) noexcept;

// Binds the instances of all loaded modules that nobody has bound: those that found no tool, and those that
// have not looked yet. Where another tool's functions are, nothing is changed. A second call looks at what
// was loaded since. Waits for the loader's lock, a module at a time: for threads that may.
void bind_loaded() noexcept;

// Takes our functions out of them again. The places are null then, as they were.
void release_loaded() noexcept;

}  // namespace warpline::agent::nvtx
