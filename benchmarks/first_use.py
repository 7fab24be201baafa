"""A stranger's first minute: a new environment, pip install of a wheel, the first verdict.

    python benchmarks/first_use.py dist/warpline-*.whl

Each step is a process of its own, timed from outside. Ours are: installing our wheel alone, less
what pip takes to install nothing, and `warpline demo` until the line that says what to fix. The
goals are 60 s in all, which includes the downloads, and 3 s for ours. Exit status 1 if one is
missed. Times depend on the network, on what pip has in its cache, and on the load: on a busy
machine, only CPU times say something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TOTAL_S, OURS_S = 60.0, 3.0
VERDICT = b"Fix first:"


class Step(NamedTuple):
    """A step and its times.

    Attributes:
        name: What is done.
        sign: 1 if its time counts as ours, -1 if it is subtracted, 0 if neither.
        wall_s: From the start of its process to its end, or to the verdict.
        cpu_s: CPU time of the process, to its end.
    """

    name: str
    sign: int
    wall_s: float
    cpu_s: float


def timed(
    name: str, command: Sequence[str], folder: Path, *, sign: int = 0, until: bytes = b""
) -> Step:
    """Run a command in a folder; SystemExit if it fails, or its output lacks a text."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin_s = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    seen_s = next((time.perf_counter() for line in process.stdout if until in line), None)
    for _ in process.stdout:
        pass
    status = process.wait()
    end_s = seen_s if until else time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status or end_s is None:
        raise SystemExit(f"failed: {' '.join(command)}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Step(name, sign, end_s - begin_s, cpu_s)


def first_use(wheel: Path, python: str, folder: Path) -> list[Step]:
    """Return the steps from nothing to the first verdict."""
    programs = folder / "new" / "bin"
    install = [str(programs / "python"), "-m", "pip", "install", "-q"]
    install.append("--disable-pip-version-check")
    return [
        timed("new environment", [python, "-m", "venv", str(folder / "new")], folder),
        timed("pip, for nothing", [*install, "--no-deps", "pip"], folder, sign=-1),
        timed("our wheel", [*install, "--no-deps", str(wheel)], folder, sign=1),
        timed("what it needs", [*install, str(wheel)], folder),
        timed(
            "warpline demo, to the verdict",
            [str(programs / "warpline"), "demo"],
            folder,
            sign=1,
            until=VERDICT,
        ),
    ]


def main() -> int:
    """Print the steps, and whether the goals were met."""
    parser = argparse.ArgumentParser(description="Install to the first verdict.")
    parser.add_argument("wheel", type=Path, help="a wheel of warpline")
    parser.add_argument("--python", default=sys.executable, help="of the new environment")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = first_use(options.wheel.resolve(strict=True), options.python, Path(folder))
    total_s = sum(step.wall_s for step in steps if step.sign >= 0)
    total_cpu_s = sum(step.cpu_s for step in steps if step.sign >= 0)
    ours_s = sum(step.sign * step.wall_s for step in steps)
    ours_cpu_s = sum(step.sign * step.cpu_s for step in steps)
    facts = {
        "wheel": options.wheel.name,
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "total_s": total_s,
        "total_cpu_s": total_cpu_s,
        "ours_s": ours_s,
        "ours_cpu_s": ours_cpu_s,
        "steps": [step._asdict() for step in steps],
    }
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        for step in steps:
            mark = " +-"[step.sign]
            print(f"{mark} {step.name:30} {step.wall_s:6.1f} s   {step.cpu_s:5.1f} s of CPU")
        print(f"  total {total_s:.1f} s, {total_cpu_s:.1f} s of CPU (goal {TOTAL_S:g} s)")
        print(f"  ours  {ours_s:.1f} s, {ours_cpu_s:.1f} s of CPU (goal {OURS_S:g} s)")
        print(f"  {options.wheel.name}, Python {facts['python']}, load {facts['load']:.1f}")
    return 0 if total_s <= TOTAL_S and ours_s <= OURS_S else 1


if __name__ == "__main__":
    sys.exit(main())
