"""The flags of ``nsys profile`` that Warpline accepts but does not support, and why.

They are accepted so that any nsys command line works: each takes its value, prints one warning, and
the run continues. A value that disables the feature (``--sample=none``) gives no warning. The names
are from nsys's documentation of versions 2021.1 to 2026.2, including flags removed since.
"""

from __future__ import annotations

from warpline.capture.flags.grammar import ForeignFlag

_CPU = "CPU events and counters are not recorded; use --sample and --cpuctxsw"
_EVENTS = "GPU timestamps of CUDA events are not recorded"
_GPU = "GPU context switches and video engines are not recorded"
_NETWORK = "network metrics are not recorded"
_SYSTEM_CALLS = "system calls are not recorded; -t osrt records calls of the C library"
_PYTHON = (
    "functions are not traced; use --python-sampling, or python -m warpline.annotate for ranges"
)
_STORAGE = "storage metrics are not recorded"
_GRAPHICS = "graphics APIs are not recorded"
_WINDOWS = "Windows only"
_EMBEDDED = "embedded platforms only"

_NOT_COLLECTED = {
    _CPU: (
        "clock-frequency-changes",
        "cpu-cluster-events",
        "cpu-core-events",
        "cpu-core-metrics",
        "cpu-metrics",
        "cpu-socket-events",
        "cpu-socket-metrics",
        "debug-symbols",
        "event-sample",
        "event-sampling",
        "event-sampling-frequency",
        "event-sampling-interval",
        "event-sampling-multiplex-interval",
        "ftrace",
        "ftrace-keep-user-config",
        "os-events",
        "resolve-symbols",
        "samples-per-backtrace",
        "sampling-period",
        "sampling-trigger",
        "show-source-info",
    ),
    _EVENTS: ("cuda-event-trace",),
    _GPU: (
        "gpu-video-device",
        "gpu-video-devices",
        "gpuctxsw",
    ),
    _NETWORK: (
        "ib-net-info-devices",
        "ib-net-info-files",
        "ib-net-info-output",
        "ib-switch-congestion",
        "ib-switch-congestion-device",
        "ib-switch-congestion-devices",
        "ib-switch-congestion-nic-device",
        "ib-switch-congestion-percent",
        "ib-switch-congestion-threshold-high",
        "ib-switch-metrics",
        "ib-switch-metrics-device",
        "ib-switch-metrics-devices",
        "ib-switch-metrics-nic",
        "ib-switch-metrics-nic-device",
        "nic-metrics",
    ),
    _SYSTEM_CALLS: ("syscall",),
    "files of calls are not recorded": ("osrt-file-access",),
    _PYTHON: (
        "dask",
        "python-functions-trace",
        "python-nvtx-annotations",
    ),
    _STORAGE: (
        "gds-libs-path",
        "gds-metrics",
        "lustre-llite-dir",
        "lustre-volumes",
        "nfs-volumes",
        "storage-devices",
        "storage-metrics",
    ),
    _GRAPHICS: (
        "auto-report-name",
        "duration-frames",
        "hotkey-capture",
        "opengl-gpu-workload",
        "start-frame-index",
        "vsync",
        "vulkan-gpu-workload",
    ),
    _WINDOWS: (
        "dx-force-declare",
        "dx-force-declare-adapter-removal-support",
        "dx12-gpu-workload",
        "dx12-wait-calls",
        "etw-provider",
        "injection-use-detours",
        "isr",
        "retain-etw-files",
        "wddm-additional-events",
        "wddm-backtraces",
        "wddm-memory-trace",
    ),
    _EMBEDDED: (
        "accelerator-trace",
        "el1-sampling",
        "el1-sampling-config",
        "process-scope",
        "qnx-kernel",
        "qnx-kernel-events",
        "qnx-kernel-events-mode",
        "soc-metrics",
        "soc-metrics-frequency",
        "soc-metrics-set",
        "xhv-trace",
        "xhv-trace-events",
        "xhv-vm-symbols",
    ),
    "nsys plugins are not supported": ("enable",),
}
_IGNORED = {
    "after-collection-start": "run the command from the program",
    "cuda-trace-scope": "all recorded processes are traced",
    "osrt-backtrace": "use --osrt-backtrace-threshold",
    "osrt-backtrace-depth": "backtraces have up to 64 native and 128 Python frames",
    "osrt-backtrace-stack-size": "the whole stack is read",
    "mpi-impl": "-t mpi records any implementation",
    "flush-on": "use --cuda-flush-interval",
    "flush-on-cudaprofilerstop": "use --cuda-flush-interval",
    "after-report-ready": "run the command after warpline profile",
    "run-as": "run warpline profile as that user",
    "session": "sessions have no names in Warpline",
    "session-new": "sessions have no names in Warpline",
    "start-later": "use --delay, or warpline.profile() in the program",
    "trace-fork-before-exec": "processes are always recorded from the fork on",
}
SHORT_NAMES = {"-Y": "start-later"}

FOREIGN_FLAGS = {
    f"--{name}": ForeignFlag(f"--{name}", reason)
    for reason, names in _NOT_COLLECTED.items()
    for name in names
} | {f"--{name}": ForeignFlag(f"--{name}", reason, "ignored") for name, reason in _IGNORED.items()}
FOREIGN_FLAGS |= {short: FOREIGN_FLAGS[f"--{name}"] for short, name in SHORT_NAMES.items()}
