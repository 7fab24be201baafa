"""``warpline kernels`` of the fake program: the whole command, with a fake GPU and host."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.launching import Ended, environment

Kernels = Callable[..., Ended]

_CODE = """\
import sys
sys.path.insert(0, {tests!r})
import capture.test_prepare as fakes
from support import counter_host as host
from warpline.capture.counting import prepare
from warpline.capture.machine.gpus import Gpus
from warpline.capture.machine.obstacles import obstacle
from warpline.cli import main
prepare.HostProcess = fakes.Host
gpu = fakes.gpu(problem=obstacle({status}))
prepare.find_gpus = lambda *_: Gpus((gpu,), fakes.CUPTI, {version})
host.COUNTERS |= {counters}
sys.exit(main(["kernels", *sys.argv[1:]]))
"""
_TESTS = str(Path(__file__).parents[1])
_WITH_CLOCKS = 130_400  # the version of CUPTI that can lock them


def kernels_command(
    folder: Path,
    cuda: Any,
    words: Sequence[object],
    flags: Sequence[str] = (),
    *,
    script: str = "",
    version: int = 130_001,
    has_clock: bool = False,
    **more: Any,
) -> Ended:
    """Count the kernels of the fake program in a folder.

    Args:
        folder: The current directory; the program finds its CUPTI below it.
        cuda: The fake CUDA.
        words: What the program does.
        flags: Flags of the command.
        script: Run by a shell, if given; its "$@" is the command line of the program.
        version: CUPTI's.
        has_clock: Whether the GPU has the counters of the clock.
        more: For `subprocess.run`.
    """
    command, own = kernels_script(folder, cuda, version=version, has_clock=has_clock)
    shell = ["sh", "-c", script, "sh"] if script else []
    program = cuda.command("init", *words, cupti=own["FAKE_CUPTI"])
    done = subprocess.run(
        [*command, *flags, "--", *shell, *program],
        cwd=folder,
        env=own,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
        **more,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def kernels_script(
    folder: Path,
    cuda: Any,
    *,
    version: int = 130_001,
    has_clock: bool = False,
    has_flop: bool = False,
    status: int = 0,
) -> tuple[list[str], dict[str, str]]:
    """Return the command line of ``warpline kernels`` with a fake GPU, and its environment.

    Args:
        folder: Temporary files go there; the program finds its CUPTI below it, at FAKE_CUPTI.
        cuda: The fake CUDA.
        version: CUPTI's.
        has_clock: Whether the GPU has the counters of the clock.
        has_flop: Whether it has those of FP32.
        status: What CUPTI answers to the attempt to count; 35 is a lack of rights.
    """
    library = folder / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    library.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(cuda.cupti13_4 if version >= _WITH_CLOCKS else cuda.cupti13, library)
    own = environment(TMPDIR=str(folder), FAKE_CUPTI=str(library))
    own["PYTHONPATH"] += f":{folder / 'packages'}"
    counters = " | ".join(
        ["{}", *["host.CLOCK"] * has_clock, *["host.FLOP"] * has_flop],
    )
    code = _CODE.format(tests=_TESTS, version=version, counters=counters, status=status)
    return [sys.executable, "-c", code], own
