// Which CPython a process runs, found in its files and its memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "stack/python_layout.h"

namespace warpline::sampler {

// Where the interpreter's lists of threads and its GIL are, in bytes.
struct RuntimeLayout {
  std::uint32_t interpreters;  // of the runtime: the first interpreter
  std::uint32_t interpreter_next;
  std::uint32_t interpreter_states;  // its first thread state
  std::uint32_t state_next;
  std::uint32_t state_thread;     // the number of its thread
  bool is_native_thread;          // that of the kernel; otherwise the C library's
  std::uint32_t runtime_gil;      // of the runtime: the GIL, or 0
  std::uint32_t interpreter_gil;  // of an interpreter: where its GIL is, or 0
};

// What all versions have in common.
inline constexpr std::uint32_t kGilHolder = 8;
inline constexpr std::uint32_t kGilIsLocked = 16;
inline constexpr std::uint32_t kGilBytes = 208;  // with the condition that waiting threads wait for

struct RemoteBuild {
  std::uint64_t runtime = 0;  // the address of _PyRuntime
  stack::PythonBuild python;
  RuntimeLayout places{};
  // The function that runs Python's code: an address, 0: it has no name.
  std::uint64_t evaluator = 0;
  std::uint64_t evaluator_end = 0;
};

// Whether the name of a file is one of an interpreter.
bool may_have_python(std::string_view path) noexcept;

// Looks for an interpreter in a process. False if there is none. `problem` is then null, or says why its
// stacks cannot be read.
bool find_python(pid_t pid, RemoteBuild& build, const char*& problem);

}  // namespace warpline::sampler
