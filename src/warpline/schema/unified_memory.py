"""Page faults of unified memory. The migrations that follow are rows of `memcpy`."""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import SPAN, enum, number, ref, text, time
from warpline.schema.labels import PAGE_ACCESSES

_ADDRESS = number("address", "Address of the page.")
_PROCESS = ref("process_id", "process", "Process.")

CPU_PAGE_FAULT = TableSpec(
    "um_cpu_page_fault",
    "One access of the CPU to a page of unified memory that was not in its memory.",
    (
        time("time_ns", "Time at which the driver started to handle it."),
        _PROCESS,
        _ADDRESS,
        number("pc", "Address of the CPU instruction.", nullable=True),
        text("function", "Function of the CPU instruction, or its address.", nullable=True),
        text("module", "Library or file of the CPU instruction.", nullable=True),
    ),
    ("time_ns", "process_id", "address"),
)

GPU_PAGE_FAULT = TableSpec(
    "um_gpu_page_fault",
    "Accesses of a GPU to a page of unified memory that was not in its memory, handled together.",
    (
        *SPAN,
        ref("device_id", "device", "GPU."),
        _PROCESS,
        _ADDRESS,
        number("faults", "Number of page faults."),
        enum("access", PAGE_ACCESSES, "Kind of access."),
    ),
    ("start_ns", "end_ns", "device_id", "address"),
)

TABLES = (CPU_PAGE_FAULT, GPU_PAGE_FAULT)
