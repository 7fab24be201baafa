// Prints where a Python has what the agent reads of it, by its own headers: a line of JSON.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe_structs.h"
#define FIRST_SHIM FRAME_OWNED_BY_INTERPRETER
#elif PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#define FIRST_SHIM FRAME_OWNED_BY_CSTACK
#else
#include "frameobject.h"
#endif

#define OFFSET(name, type, member) printf(", \"" name "\": %zu", offsetof(type, member))

int main(void) {
  printf("{\"minor\": %d", PY_MINOR_VERSION);
#if PY_VERSION_HEX >= 0x030d0000
  OFFSET("state_frame", PyThreadState, current_frame);
#elif PY_VERSION_HEX >= 0x030b0000
  OFFSET("state_frame", PyThreadState, cframe);
  OFFSET("link_frame", _PyCFrame, current_frame);
#else
  OFFSET("state_frame", PyThreadState, frame);
#endif
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
  OFFSET("state_entry", PyThreadState, cframe);
  OFFSET("entry_previous", _PyCFrame, previous);
#elif PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030b0000
  OFFSET("state_entry", PyThreadState, cframe);
  OFFSET("entry_previous", CFrame, previous);
#endif
#if PY_VERSION_HEX >= 0x030b0000
  OFFSET("frame_previous", _PyInterpreterFrame, previous);
#if PY_VERSION_HEX >= 0x030d0000
  OFFSET("frame_code", _PyInterpreterFrame, f_executable);
  OFFSET("frame_instruction", _PyInterpreterFrame, instr_ptr);
#else
  OFFSET("frame_code", _PyInterpreterFrame, f_code);
  OFFSET("frame_instruction", _PyInterpreterFrame, prev_instr);
#endif
  OFFSET("frame_owner", _PyInterpreterFrame, owner);
#if PY_VERSION_HEX < 0x030c0000
  OFFSET("frame_is_entry", _PyInterpreterFrame, is_entry);
#else
  OFFSET("code_version", PyCodeObject, co_version);
  if (FIRST_SHIM != 3) return 1;
#endif
  OFFSET("code_start", PyCodeObject, co_code_adaptive);
  OFFSET("code_name", PyCodeObject, co_qualname);
#else
  OFFSET("frame_previous", PyFrameObject, f_back);
  OFFSET("frame_code", PyFrameObject, f_code);
  OFFSET("frame_instruction", PyFrameObject, f_lasti);
  OFFSET("code_name", PyCodeObject, co_name);
#endif
#if PY_VERSION_HEX >= 0x030a0000
  OFFSET("code_lines", PyCodeObject, co_linetable);
#else
  OFFSET("code_lines", PyCodeObject, co_lnotab);
#endif
  OFFSET("code_first_line", PyCodeObject, co_firstlineno);
  OFFSET("code_file", PyCodeObject, co_filename);
  printf(", \"text_of_ascii\": %zu", sizeof(PyASCIIObject));
  printf(", \"text_of_others\": %zu", sizeof(PyCompactUnicodeObject));
  OFFSET("object_type", PyObject, ob_type);
  OFFSET("object_size", PyVarObject, ob_size);
  OFFSET("bytes_start", PyBytesObject, ob_sval);
  OFFSET("text_length", PyASCIIObject, length);
  OFFSET("text_hash", PyASCIIObject, hash);
  OFFSET("text_state", PyASCIIObject, state);
  puts("}");
  return 0;
}
