// The CPython of this process.
#pragma once

#include "stack/python_layout.h"

namespace warpline::agent {

// The interpreter; its functions take no lock and need no GIL.
struct Python {
  void* (*state_of_thread)() = nullptr;  // of the calling thread, null without one
  void* (*state_with_gil)() = nullptr;   // equal to that, if the thread has the GIL
  int (*is_finalizing)() = nullptr;
  stack::PythonBuild build;
};

// Looks for an interpreter in this process. Returns whether there is one. `problem` is then null, or
// says why its stacks cannot be read.
bool find_python(Python& python, const char*& problem) noexcept;

}  // namespace warpline::agent
