"""The state of GPUs and of the machine over time, and errors of GPUs.

Rows are readings at one time: from the driver (NVML) and from Linux (/proc, /sys). What a driver,
a container or an older GPU does not give is null, column by column.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.declaring import duration, number, ref, size, time
from warpline.units import Unit

# What limits a GPU's clocks: the bits of NVML's clocks event reasons, in the words of nvidia-smi.
CLOCK_LIMITS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "applications clocks setting",
    0x4: "SW power cap",
    0x8: "HW slowdown",
    0x10: "sync boost",
    0x20: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake slowdown",
    0x100: "display clock setting",
}

_READING = (
    time("start_ns", "Start of the reading, from the origin."),
    time("end_ns", "End of the reading."),
)


def _measured(name: str, unit: Unit, doc: str, dtype: DType = DType.INT64) -> Column:
    return Column(name, dtype, unit, doc, nullable=True)


GPU_HEALTH = TableSpec(
    "gpu_health",
    "The state of one GPU at one time, from the driver (NVML). Counters count from when the driver "
    "was loaded; use differences.",
    (
        *_READING,
        ref("device_id", "device", "GPU."),
        _measured("sm_clock_hz", Unit.HZ, "SM clock."),
        _measured("memory_clock_hz", Unit.HZ, "Memory clock."),
        number(
            "clock_limits",
            "What limits the clocks, a sum of: "
            + ", ".join(f"{bit:#x} {words}" for bit, words in CLOCK_LIMITS.items())
            + ".",
            nullable=True,
        ),
        duration("power_limited_ns", "Counter: time with clocks limited by power.", nullable=True),
        duration("thermal_limited_ns", "Counter: time with clocks limited by heat.", nullable=True),
        _measured(
            "power_w",
            Unit.WATTS,
            "Power of the board; on most GPUs an average over the last second.",
            DType.FLOAT64,
        ),
        _measured("energy_j", Unit.JOULES, "Counter: energy used.", DType.FLOAT64),
        _measured("temperature_c", Unit.CELSIUS, "Temperature of the GPU."),
        _measured("memory_temperature_c", Unit.CELSIUS, "Temperature of its memory."),
        size("used_memory_bytes", "Memory in use, of all processes.", nullable=True),
        size(
            "other_memory_bytes",
            "Memory in use by processes that are not the program's.",
            nullable=True,
        ),
        number(
            "other_processes",
            "Processes on the GPU that are not the program's; null if unknown, as in most "
            "containers.",
            nullable=True,
        ),
        _measured(
            "busy_ratio",
            Unit.RATIO,
            "NVML's GPU utilization: share of the driver's last period in which a kernel ran.",
            DType.FLOAT64,
        ),
        number("pcie_generation", "Current PCIe generation.", nullable=True),
        number("pcie_width", "Current number of PCIe lanes.", nullable=True),
        number("nvlinks", "Active NVLinks.", nullable=True),
        size("nvlink_sent_bytes", "Counter: bytes sent over all NVLinks.", nullable=True),
        size("nvlink_received_bytes", "Counter: bytes received over all NVLinks.", nullable=True),
        number("ecc_corrected", "Corrected memory errors since the driver's start.", nullable=True),
        number(
            "ecc_uncorrected", "Uncorrected memory errors since the driver's start.", nullable=True
        ),
    ),
    ("start_ns", "device_id"),
)

GPU_ERROR = TableSpec(
    "gpu_error",
    "One error of a GPU that the driver reported: an Xid event.",
    (
        time("time_ns", "When it was noticed, up to one reading later than it happened."),
        ref("device_id", "device", "GPU."),
        number("xid", "Xid number."),
    ),
    ("time_ns", "device_id", "xid"),
)

HOST_HEALTH = TableSpec(
    "host_health",
    "The state of the machine, or of one of the program's processes, at one time (/proc, /sys). "
    "Counters of the machine count from its start, those of a process from the start of it; use "
    "differences.",
    (
        *_READING,
        ref("process_id", "process", "Process; null for the machine.", nullable=True),
        duration("cpu_ns", "Counter: CPU time used, on all cores.", nullable=True),
        _measured("cpu_clock_hz", Unit.HZ, "Machine: mean clock of CPU cores, up to 8."),
        number("cores", "Machine: CPU cores (logical) that are on.", nullable=True),
        Column(
            "usable_cores",
            DType.FLOAT64,
            Unit.NONE,
            "Machine: CPU cores that the program may use, by affinity and cgroup limit.",
            nullable=True,
        ),
        duration(
            "throttled_ns",
            "Machine: counter: time in which the cgroup's CPU limit stopped the program's threads.",
            nullable=True,
        ),
        size("memory_bytes", "Memory in RAM (process), or in use (machine).", nullable=True),
        size("free_memory_bytes", "Machine: memory that is available.", nullable=True),
        number("minor_faults", "Counter: page faults without I/O (process).", nullable=True),
        number("major_faults", "Counter: page faults with I/O (process).", nullable=True),
        size("read_bytes", "Counter: bytes read from disks.", nullable=True),
        size("written_bytes", "Counter: bytes written to disks.", nullable=True),
        size(
            "received_bytes",
            "Machine: counter: bytes received over the network: by physical interfaces, or by all "
            "but loopback if there are none, as in a container.",
            nullable=True,
        ),
        size("sent_bytes", "Machine: counter: bytes sent over the network.", nullable=True),
        size(
            "rdma_received_bytes",
            "Machine: counter: bytes received over InfiniBand and RoCE.",
            nullable=True,
        ),
        size(
            "rdma_sent_bytes",
            "Machine: counter: bytes sent over InfiniBand and RoCE.",
            nullable=True,
        ),
    ),
    ("start_ns", "process_id"),
)

TABLES = (GPU_HEALTH, GPU_ERROR, HOST_HEALTH)
