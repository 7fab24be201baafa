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
// says why its stacks cannot be read. A thread that may not wait for the loader's lock finds an interpreter that
// has called it.
bool find_python(Python& python, const char*& problem, bool may_lock) noexcept;

}  // namespace warpline::agent
