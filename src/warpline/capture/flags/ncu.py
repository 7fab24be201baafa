"""The flags of ``ncu`` that ``warpline kernels`` accepts without effect, and those it refuses.

A flag that changes neither which launches are counted nor which metrics is accepted, so that a
command line for ncu works. One that would change them is refused with the reason. Names are from
ncu 2025.3 and its earlier versions.
"""

from __future__ import annotations

from warpline.capture.flags.grammar import ForeignFlag

REFUSED, IGNORED = "refused", "ignored"

_IGNORED = (
    "app-replay-buffer",
    "apply-rules",
    "call-stack-type",
    "config-file",
    "config-file-path",
    "hostname",
    "import-sass",
    "injection-path-32",
    "injection-path-64",
    "max-connections",
    "pipeline-boost-state",
    "pm-sampling-buffer-size",
    "pm-sampling-interval",
    "pm-sampling-max-passes",
    "port",
    "print-nvtx-rename",
    "range-replay-options",
    "rename-kernels",
    "rename-kernels-export",
    "rename-kernels-path",
    "resolve-source-file",
    "rule",
    "sampling-buffer-size",
    "sampling-max-passes",
    "source-folders",
    "warp-sampling-buffer-size",
    "warp-sampling-interval",
    "warp-sampling-max-passes",
)
_IGNORED_SWITCHES = (
    "call-stack",
    "disable-profiler-start-stop",
    "forward-signals",
    "null-stdin",
    "open-in-ui",
    "print-fp",
    "print-metric-attribution",
    "print-rule-details",
    "section-folder-restore",
    "support-32bit",
    "verbose",
)
_STACKS = "call stacks are not recorded"
_RANKS = "processes are counted independently of each other"
_FOLDERS = "section files are not read; use --section and --metrics"
_REFUSED = {
    "communicator": _RANKS,
    "communicator-num-peers": _RANKS,
    "kernel-regex": "use --kernel-name regex:EXPRESSION",
    "kernel-regex-base": "use --kernel-name-base",
    "mode": "a program cannot be attached to; name the program to run",
    "mps": "MPS clients cannot be counted",
    "native-exclude": _STACKS,
    "native-include": _STACKS,
    "preload-library": "use LD_PRELOAD",
    "python-exclude": _STACKS,
    "python-include": _STACKS,
    "section-folder": _FOLDERS,
    "section-folder-recursive": _FOLDERS,
}
_SAMPLED = "use warpline profile in a run of its own: both use the GPU's counters"
_REFUSED |= {f"gpu-metrics-{name}": _SAMPLED for name in ("device", "devices", "frequency", "set")}
_REFUSED_SWITCHES = {
    "list-rules": "rules are not evaluated; reports of ncu keep their messages",
    "lockstep-kernel-launch": _RANKS,
}
# Values that are the default, and so no reason for a warning.
_IDLE = {
    "app-replay-buffer": {"file"},
    "config-file": {"yes", "on", "1", "true"},
    "import-sass": {"yes", "on", "1", "true"},
    "mode": {"launch-and-attach"},
    "pipeline-boost-state": {"dynamic"},
    "rename-kernels": {"yes", "on", "1", "true"},
    "warp-sampling-interval": {"auto"},
}


def _flag(name: str, reason: str, effect: str, *, is_switch: bool = False) -> ForeignFlag:
    idle = frozenset(_IDLE.get(name, ()))
    return ForeignFlag(f"--{name}", reason, effect, is_switch=is_switch, idle=idle)


FOREIGN_FLAGS = {
    flag.name: flag
    for flag in (
        *(_flag(name, "no effect", IGNORED) for name in _IGNORED),
        *(_flag(name, "no effect", IGNORED, is_switch=True) for name in _IGNORED_SWITCHES),
        *(_flag(name, reason, REFUSED) for name, reason in _REFUSED.items()),
        *(
            _flag(name, reason, REFUSED, is_switch=True)
            for name, reason in _REFUSED_SWITCHES.items()
        ),
    )
} | {"-p": _flag("port", "no effect", IGNORED)}
