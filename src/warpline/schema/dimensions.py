"""What rows of other tables refer to by row number: processes, threads, devices and more."""

from __future__ import annotations

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.declaring import enum, flag, number, ref, size, text
from warpline.schema.labels import STREAM_KINDS
from warpline.units import Unit

PROCESS = TableSpec(
    "process",
    "A process. The row number is its id in the trace.",
    (
        number("pid", "Process id."),
        text("name", "Executable.", nullable=True),
        text("host", "Host name.", nullable=True),
        number("rank", "Rank in a distributed program.", nullable=True),
        number("rank_count", "World size of the distributed program.", nullable=True),
    ),
)

THREAD = TableSpec(
    "thread",
    "A CPU thread.",
    (
        ref("process_id", "process", "Process of the thread."),
        number("tid", "Thread id."),
        text("name", "Name.", nullable=True),
        number("priority", "Scheduling priority.", nullable=True),
    ),
)

DEVICE = TableSpec(
    "device",
    "A GPU.",
    (
        number("gpu_index", "Index of the GPU, as recorded."),
        text("name", "Product name.", nullable=True),
        text("uuid", "UUID.", nullable=True),
        text("bus", "PCI location.", nullable=True),
        text("chip", "Chip name.", nullable=True),
        number("sm_count", "Number of SMs.", nullable=True),
        size("memory_bytes", "Memory size.", nullable=True),
        Column(
            "memory_bytes_per_s",
            DType.INT64,
            Unit.BYTES_PER_S,
            "Peak memory bandwidth.",
            nullable=True,
        ),
        size("l2_bytes", "L2 cache size.", nullable=True),
        Column("clock_hz", DType.INT64, Unit.HZ, "Maximum SM clock.", nullable=True),
        Column("memory_clock_hz", DType.INT64, Unit.HZ, "Maximum memory clock.", nullable=True),
        Column(
            "power_limit_w",
            DType.FLOAT64,
            Unit.WATTS,
            "Power limit in force when recording began.",
            nullable=True,
        ),
        Column(
            "default_power_limit_w",
            DType.FLOAT64,
            Unit.WATTS,
            "Power limit that the GPU comes with.",
            nullable=True,
        ),
        number(
            "pcie_generation",
            "Highest PCIe generation that GPU and machine can do.",
            nullable=True,
        ),
        number(
            "pcie_width", "Highest number of PCIe lanes of the GPU and its slot.", nullable=True
        ),
        number("compute_major", "Compute capability, major.", nullable=True),
        number("compute_minor", "Compute capability, minor.", nullable=True),
    ),
)

CONTEXT = TableSpec(
    "context",
    "A CUDA context.",
    (
        ref("process_id", "process", "Owning process."),
        ref("device_id", "device", "GPU."),
        number("native_id", "CUDA context id, unique within a process."),
        flag("is_green", "Whether it is a green context."),
        number("parent_native_id", "CUDA id of a green context's parent.", nullable=True),
    ),
)

STREAM = TableSpec(
    "stream",
    "A CUDA stream.",
    (
        ref("process_id", "process", "Owning process."),
        ref("context_id", "context", "Context."),
        number("native_id", "CUDA stream id, unique within a context."),
        number("priority", "Stream priority; lower values run first.", nullable=True),
        enum("kind", STREAM_KINDS, "Stream kind.", nullable=True),
    ),
)

METRIC = TableSpec(
    "metric",
    "A hardware metric.",
    (text("name", "Name with unit, as recorded."),),
)

TABLES = (
    PROCESS,
    THREAD,
    DEVICE,
    CONTEXT,
    STREAM,
    METRIC,
)
