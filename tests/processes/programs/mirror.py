"""Says what a program can see of its surroundings, to compare with and without the launcher."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import sys
from pathlib import Path

OURS = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "WARPLINE_SESSION"}


def look() -> dict[str, object]:
    """Return everything that should not depend on who started the program."""
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    status = Path("/proc/self/status").read_text(encoding="ascii")
    masks = [line for line in status.splitlines() if line.startswith(("Sig", "Cap", "NoNew", "Um"))]
    return {
        "words": sys.argv,
        "environment": {k: v for k, v in sorted(os.environ.items()) if k not in OURS},
        "folder": str(Path.cwd()),
        "masks": [line for line in masks if not line.startswith("SigQ")],
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "handles": [handle for handle in range(64) if is_open(handle)],
        "modes": [fcntl.fcntl(handle, fcntl.F_GETFL) for handle in range(3)],
        "nice": os.nice(0),
        "processors": sorted(os.sched_getaffinity(0)),
        "group": os.getpgrp() == os.getpgid(os.getppid()),
        "session": os.getsid(0) == os.getsid(os.getppid()),
        "ids": os.getresuid() + os.getresgid(),
        "alarm": signal.getitimer(signal.ITIMER_REAL),
    }


def is_open(handle: int) -> bool:
    """Return whether a file is open under a number."""
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look(), indent=1))
