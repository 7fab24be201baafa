"""Windows, as far as it can be played here: what Python lacks there is hidden from Warpline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warpline.cli.parser import _OF_PROGRAMS, find

# Python's own modules have chosen what they use before anything is hidden.
WINDOWS = """
import contextlib, io, multiprocessing, os, shutil, signal, socket, subprocess, sys, tempfile
import numpy, zipfile

for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("fork", "getuid", "killpg", "openpty", "pread", "register_at_fork", "statvfs",
             "sched_getaffinity", "sysconf", "uname", "WNOHANG"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "pthread_sigmask"):
    delattr(signal, name)
sys.platform = "win32"
os.environ["WARPLINE_NATIVE"] = "0"

from warpline.cli import main

recording, page = sys.argv[1:]
for words in (["--help"], ["stats", "-r", "cuda_gpu_kern_sum", recording], ["analyze", recording],
              ["report", "-o", page, recording], ["profile", "--", "true"],
              ["kernels", "--", "true"], ["view", "--live"]):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main(words)
    failed = [line for line in said.getvalue().splitlines() if line.startswith("error")]
    print(words[0], status, *failed)
"""
REFUSED = "1 error: programs are recorded on Linux only"


def test_windows_reads_and_says_that_it_does_not_record(tmp_path: Path) -> None:
    recording = Path(__file__).parents[2] / "src/warpline/data/pageable_h2d.bad.sqlite"
    words = [sys.executable, "-c", WINDOWS, str(recording), str(tmp_path / "page.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        *("--help 0", "stats 0", "analyze 0", "report 0"),
        *(f"profile {REFUSED}", f"kernels {REFUSED}", f"view {REFUSED}"),
    ], done.stderr


def test_the_commands_that_are_refused_exist() -> None:
    assert [name for name in _OF_PROGRAMS if find(name) is None] == []
