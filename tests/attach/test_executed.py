"""Processes that execute other programs just when they are attached to."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from warpline.capture.attaching.injecting import Attacher
from warpline.errors import CaptureError

TIMES = 12

# Each execution of it has other addresses, and starts slowly enough to be met at any place.
PROGRAM = """
import os, sys, time
number = int(sys.argv[2])
if number:
    time.sleep(0.05)
    words = [sys.executable, "-c", os.environ["PROGRAM"], sys.argv[1], str(number - 1)]
    os.execv(sys.executable, words)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
print("ok")
"""


def test_calls_while_programs_are_executed(
    attacher: Attacher, counted: Path, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    target = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(stop), str(TIMES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PROGRAM": PROGRAM},
    )
    assert target.stdout is not None
    os.set_blocking(target.stdout.fileno(), False)
    said = b""
    while target.poll() is None and b"ready" not in said:
        # It may execute the next one just now, or have just begun to start.
        with contextlib.suppress(CaptureError):
            attacher.inject(target.pid, counted, "counted", "ok")
        said += target.stdout.read() or b""
    os.set_blocking(target.stdout.fileno(), True)
    assert target.poll() is None, target.communicate()
    assert attacher.inject(target.pid, counted, "counted", "ok", timeout_s=60).result >= 1
    stop.touch()
    output, errors = target.communicate(timeout=60)
    assert (said + output, errors, target.returncode) == (b"ready\nok\n", b"", 0)
