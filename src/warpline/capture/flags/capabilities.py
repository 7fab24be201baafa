"""The APIs that this version can record, defined here only.

A collector adds its name by its declaration in native/raw/records.toml. Flags, their warnings and
the summary follow. Names of nsys's that are recorded by now are left out of `NOT_YET`.
"""

from __future__ import annotations

from warpline.capture.session.raw_numbers import COLLECTORS

COLLECTED = ("cuda", "nvtx", *COLLECTORS)
DEFAULT = ("cuda", "nvtx")
# Collected in place of a timeline, never with -t.
COUNTERS = "counters"
PC_SAMPLES = "pc samples"
# Sampled from outside of the program, never with -t.
CPU_SAMPLES = "cpu samples"
CONTEXT_SWITCHES = "context switches"
PYTHON_SAMPLES = "python samples"
# Read from outside of the program, although it is of -t.
PYTHON_GIL = "python-gil"
# The collector of calls of the C library.
OS_CALLS = "osrt"
# Those of MPI and OpenMP.
MPI = "mpi"
OPENMP = "openmp"

# Values of `-t`, as nsys names them. A name with a "-" suffix is a variant of the API before it.
NOT_YET = (
    "cuda-hw",
    "cudla",
    "cudla-verbose",
    "cufile",
    "dx11",
    "dx11-annotations",
    "dx12",
    "dx12-annotations",
    "gds",
    "nvmedia",
    "nvvideo",
    "openacc",
    "opengl",
    "opengl-annotations",
    "openxr",
    "openxr-annotations",
    "oshmem",
    "syscall",
    "tegra-accelerators",
    "ucx",
    "vdpau",
    "vulkan",
    "vulkan-annotations",
    "wddm",
)
NOTHING = "none"
# nsys names without a difference here
ALIASES = {"cuda-sw": "cuda", "cusolver-verbose": "cusolver", "cusparse-verbose": "cusparse"}
KNOWN = (*COLLECTED, *NOT_YET, *ALIASES, NOTHING)

_NAMES = f"{', '.join(COLLECTED[:-1])} and {COLLECTED[-1]}"
WHY_NOT = f"this version records only {_NAMES}"
HINT = f"use {', '.join(COLLECTED[:-1])} or {COLLECTED[-1]}"


def lacking(wanted: tuple[str, ...]) -> list[str]:
    """Return the requested APIs that cannot be recorded, in the requested order."""
    return [name for name in dict.fromkeys(wanted) if name not in (*COLLECTED, NOTHING)]


def collectors(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requested collectors of the agent: what is neither CUDA nor NVTX."""
    return tuple(name for name in COLLECTORS if name in wanted and name != PYTHON_GIL)


def has_library_calls(wanted: tuple[str, ...]) -> bool:
    """Return whether calls of a library are requested that can have backtraces."""
    return any(COLLECTORS.get(name) == "library_call" and name != "openmp" for name in wanted)


def collected(wanted: tuple[str, ...]) -> list[str]:
    """Return the requested APIs that can be recorded."""
    return [name for name in COLLECTED if name in wanted]
