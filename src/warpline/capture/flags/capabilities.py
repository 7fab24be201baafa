"""The APIs that this version can record, defined here only.

To make an API recordable, move its name from `NOT_YET` to `COLLECTED`. Flags, their warnings and
the summary follow.
"""

from __future__ import annotations

COLLECTED = ("cuda", "nvtx")
DEFAULT = ("cuda", "nvtx")

# Values of `-t`, as nsys names them. A name with a "-" suffix is a variant of the API before it.
NOT_YET = (
    "cuda-hw",
    "cublas",
    "cublas-verbose",
    "cudla",
    "cudla-verbose",
    "cudnn",
    "cufile",
    "cusolver",
    "cusolver-verbose",
    "cusparse",
    "cusparse-verbose",
    "dx11",
    "dx11-annotations",
    "dx12",
    "dx12-annotations",
    "gds",
    "mpi",
    "nccl",
    "nvmedia",
    "nvvideo",
    "openacc",
    "opengl",
    "opengl-annotations",
    "openmp",
    "openxr",
    "openxr-annotations",
    "oshmem",
    "osrt",
    "python-gil",
    "syscall",
    "tegra-accelerators",
    "ucx",
    "vdpau",
    "vulkan",
    "vulkan-annotations",
    "wddm",
)
NOTHING = "none"
ALIASES = {"cuda-sw": "cuda"}  # nsys names without a difference here
KNOWN = (*COLLECTED, *NOT_YET, *ALIASES, NOTHING)

WHY_NOT = f"this version records only {' and '.join(name.upper() for name in COLLECTED)}"


def lacking(wanted: tuple[str, ...]) -> list[str]:
    """Return the requested APIs that cannot be recorded, in the requested order."""
    return [name for name in dict.fromkeys(wanted) if name not in (*COLLECTED, NOTHING)]


def collected(wanted: tuple[str, ...]) -> list[str]:
    """Return the requested APIs that can be recorded."""
    return [name for name in COLLECTED if name in wanted]
