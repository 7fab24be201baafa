// The Python stack of the calling thread.
//
// A thread's own frames do not change while it is in a call of C, with or without the GIL, and what they
// refer to lives as long as they do: so the walk takes nothing, counts no reference and calls no code of
// Python that needs the GIL. Only while the interpreter ends may another thread free them. So a thread
// that could be overtaken by that, and every thread until one walk has shown that this Python is built
// as expected, has its frames copied by the kernel, which does not fault. So has a thread in a call of the C
// library: the interpreter makes such calls itself, as when it gives back the memory of its frames.
#pragma once

#include <cstdint>

#include "stack/python_frames.h"

namespace warpline::agent {

using stack::PythonCode;
using stack::PythonStack;

// Where a thread of Python is: in a function of C that Python has called, so that its frames are whole; or
// anywhere, as in a function of the C library, which the interpreter itself calls while it changes frames.
enum class PythonPlace : std::uint8_t { kInCall, kAnywhere };

// Fills the stack of the calling thread, of which the innermost frames count; it stays empty for a thread
// without Python.
void walk_python(PythonStack& stack, PythonPlace place) noexcept;

// Looks for an interpreter that is loaded already. Takes the loader's lock: while a session begins, or from a
// thread of the agent.
void meet_python() noexcept;

// The same in a signal's handler, at any place of the program, in two parts. What the first finds lacks the
// numbers of code; it needs `memory` as room. The second, in another thread and soon after, fills them in: 0, a
// number without a name, for code that was freed meanwhile. An interpreter is looked for by the others only.
class CopiedMemory;
void walk_python_in_handler(PythonStack& stack, CopiedMemory& memory, bool is_main_thread) noexcept;
void number_python(PythonStack& stack) noexcept;

// What keeps Python's stacks from being read, or null.
const char* python_problem() noexcept;

// Reads the code at an address, from the stack of the calling thread, into `room`, which has space for
// kMostBytes. False where it cannot be read.
bool read_python_code(std::uint64_t address, PythonCode& code, char* room) noexcept;

}  // namespace warpline::agent
