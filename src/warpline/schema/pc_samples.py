"""Sampled program counters of a whole run: where warps were, and why they did not issue.

They are sums over the recording. Samples have no times and belong to no launch.
"""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import flag, number, ref, size, text

_PROCESS_ID = ref("process_id", "process", "Process.")
_DEVICE_ID = ref("device_id", "device", "GPU.", nullable=True)

PC_SAMPLE = TableSpec(
    "pc_sample",
    "Samples of one instruction with one stall reason, of the whole recording.",
    (
        _PROCESS_ID,
        _DEVICE_ID,
        number("module_checksum", "CUPTI's checksum of the module (cubin) that has the function."),
        text("function", "Symbol of the function in its module."),
        text("name", "Full demangled name of the kernel."),
        text("short_name", "Name of the kernel without parameters and template arguments."),
        size("offset_bytes", "Place of the instruction, from the start of the function."),
        text(
            "stall",
            "Why the warp did not issue, such as `long_scoreboard`; `selected` if it did. Other"
            " names of CUPTI's are kept whole.",
        ),
        number("samples", "Number of samples."),
        number(
            "not_issued_samples",
            "Those of them in whose cycle the scheduler issued no instruction of any warp.",
        ),
    ),
    ("process_id", "device_id", "module_checksum", "offset_bytes"),
)

PC_SAMPLING = TableSpec(
    "pc_sampling",
    "How program counters were sampled in one process on one GPU.",
    (
        _PROCESS_ID,
        _DEVICE_ID,
        number("period_cycles", "Cycles of an SM between two of its samples."),
        number("total_samples", "All samples, including the two kinds below."),
        number("dropped_samples", "Samples that the GPU dropped."),
        number("non_user_samples", "Samples of the driver's own kernels, without an instruction."),
        number("modules_left_out", "Modules loaded whose code was not kept."),
        flag("hardware_buffer_full", "Whether the GPU's buffer was full at any time."),
    ),
    ("process_id", "device_id"),
)

TABLES = (PC_SAMPLE, PC_SAMPLING)
