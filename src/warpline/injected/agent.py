"""The agent as the parts use it: ranges with numbers, faster than by a package for NVTX."""

from __future__ import annotations

import ctypes
from typing import Any


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Agent:
    """The agent's functions for Python.

    They are called with the GIL held, which takes less than half of a call that gives it up; none
    of them waits. Without a session they do nothing.

    Args:
        file: The agent's library. It is loaded by this if nothing else has loaded it.

    Raises:
        OSError: It cannot be loaded.
        AttributeError: It is an older one.
    """

    def __init__(self, file: str) -> None:
        library = ctypes.PyDLL(file)
        self._name = library.wl_python_name
        self._name.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        self._name.restype = ctypes.c_void_p
        self.push, self.pop = _methods(library) or _functions(library)
        """push(handle, value): open a range. A value of 0 or more is its payload `sequence`.

        pop(handle, value): close the range; a value of 0 or more is its `end_sequence`."""
        self.is_recording = library.wl_python_is_recording
        """is_recording(): whether a range would be recorded now, or begin a recording."""
        self.is_recording.argtypes = ()
        self.is_recording.restype = ctypes.c_int

    def name(self, domain: str, text: str) -> int:
        """Return the handle of a range's domain and name, good until the process ends.

        Each call keeps some memory: keep the handle. 0 without memory; it may be pushed, too.
        """
        return self._name(domain.encode(), text.encode("utf-8", "replace")) or 0


def _methods(library: ctypes.PyDLL) -> tuple[Any, Any] | None:
    """Return the agent's push and pop as functions of Python; None where it cannot make them."""
    library.wl_python_methods.argtypes = ()
    library.wl_python_methods.restype = ctypes.c_void_p
    first = library.wl_python_methods()
    if not first:
        return None
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    size = ctypes.sizeof(_Definition)
    return make(first, None, None), make(first + size, None, None)


def _functions(library: ctypes.PyDLL) -> tuple[Any, Any]:
    """Return the agent's push and pop by ctypes."""
    push, pop = library.wl_python_push, library.wl_python_pop
    for function in (push, pop):
        function.argtypes = (ctypes.c_void_p, ctypes.c_int64)
        function.restype = None
    return push, pop
