"""Windows and macOS, as far as they can be played here: what Python lacks there is hidden."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warpline.cli.parser import _OF_PROGRAMS, find

# Names that Python lacks there, by module; "" lists modules.
HIDDEN = {
    "win32": {
        "": ["fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"],
        "os": [
            *("fork", "getuid", "killpg", "openpty", "pread", "register_at_fork", "statvfs"),
            *("sched_getaffinity", "sysconf", "uname", "WNOHANG"),
        ],
        "signal": [
            *("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "pthread_sigmask"),
        ],
        "socket": ["AF_UNIX"],
        "select": ["epoll", "poll"],
    },
    "darwin": {
        "": [],
        "os": [
            *("sched_getaffinity", "sched_setaffinity", "posix_fallocate", "posix_fadvise"),
            *("pipe2", "memfd_create", "pidfd_open", "eventfd", "getrandom", "fdatasync"),
            *("copy_file_range", "splice", "getxattr", "getresuid", "O_PATH", "O_TMPFILE"),
        ],
        "signal": ["sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGPOLL"],
        "socket": ["AF_NETLINK", "AF_PACKET", "SO_PEERCRED"],
        "select": ["epoll"],
    },
}
# Python's own modules have chosen what they use before anything is hidden.
PROGRAM = """
import asyncio, contextlib, http.server, importlib, io, json, multiprocessing, shutil, socketserver
import os, subprocess, sys, tempfile, threading, urllib.request, zipfile
import numpy

system, hidden = json.loads(SYSTEM)
for module, names in hidden.items():
    for name in names:
        if module:
            delattr(importlib.import_module(module), name)
        else:
            sys.modules[name] = None

def refuse(event, given):
    if event == "open" and str(given[0]).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(given[0])

def serve_a_browser(server, poll_interval):
    browser = threading.Thread(target=lambda: pages.append(get(server.url)))
    browser.start()
    server.handle_request()
    browser.join()

sys.addaudithook(refuse)
sys.platform = system
os.environ |= {"WARPLINE_NATIVE": "0", "no_proxy": "*"}

from warpline.cli import main

def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read()

pages = []
socketserver.BaseServer.serve_forever = serve_a_browser
recording, page = sys.argv[1:]
for words in (["--help"], ["stats", "-r", "cuda_gpu_kern_sum", recording], ["analyze", recording],
              ["report", "-o", page, recording], ["view", "--no-browser", recording],
              ["profile", "--", "true"], ["kernels", "--", "true"], ["view", "--live"],
              ["graphcheck", "--", "true"], ["sweep", "--vary", "n=1,2", "--", "true", "{n}"],
              ["kernels", "sweep", "--vary", "n=1,2", "--", "true", "{n}"]):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main(words)
    failed = [line for line in said.getvalue().splitlines() if line.startswith("error")]
    print(words[0], status, *failed)
print(len(pages), b"<script" in pages[0])
"""


def program_on(system: str) -> str:
    """Return the program, which plays a system before its line that imports Warpline."""
    return PROGRAM.replace("SYSTEM", repr(json.dumps([system, HIDDEN[system]])))


WINDOWS = program_on("win32")
REFUSED = "1 error: programs are recorded on Linux only"


@pytest.mark.parametrize("system", HIDDEN)
def test_another_system_reads_and_says_that_it_does_not_record(tmp_path: Path, system: str) -> None:
    recording = Path(__file__).parents[2] / "src/warpline/data/pageable_h2d.bad.sqlite"
    words = [sys.executable, "-c", program_on(system), str(recording), str(tmp_path / "page.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        *("--help 0", "stats 0", "analyze 0", "report 0", "view 0"),
        *(f"profile {REFUSED}", f"kernels {REFUSED}", f"view {REFUSED}"),
        *(f"graphcheck {REFUSED}", f"sweep {REFUSED}", f"kernels {REFUSED}"),
        "1 True",
    ], done.stderr


def test_the_commands_that_are_refused_exist() -> None:
    assert [name for name in _OF_PROGRAMS if find(name) is None] == []
