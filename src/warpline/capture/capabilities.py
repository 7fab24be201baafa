"""What this version records: the one place that knows.

A kind of event becomes recordable by moving its name from `NOT_YET` to `COLLECTED`; flags, their
warnings and the summary follow.
"""

from __future__ import annotations

COLLECTED = ("cuda", "nvtx")
DEFAULT = ("cuda", "nvtx")

# What `-t` takes, as nsys names it. Those with "-" behind their name are variants of it.
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
ALIASES = {"cuda-sw": "cuda"}  # of nsys, for what is the same here
KNOWN = (*COLLECTED, *NOT_YET, *ALIASES, NOTHING)

WHY_NOT = f"this version records {' and '.join(name.upper() for name in COLLECTED)} only"
CAPTURE_RANGES = ("nvtx", "cudaProfilerApi")  # of what `-c` takes: what can open a capture range


def lacking(wanted: tuple[str, ...]) -> list[str]:
    """Return what is asked for and not recorded, in the order asked for."""
    return [name for name in dict.fromkeys(wanted) if name not in (*COLLECTED, NOTHING)]


def collected(wanted: tuple[str, ...]) -> list[str]:
    """Return what is asked for and recorded."""
    return [name for name in COLLECTED if name in wanted]
