"""Run one command and print what it used as JSON; paired.py starts it.

Usage: python -I -S one_run.py COMMAND...

A process of its own, because the kernel's peak of a program begins with the memory of the process
that starts it: this one is smaller than all that are measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

_SAMPLE_S = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Sampler(threading.Thread):
    """Samples the memory of a process and its descendants.

    Pages that several of them share count for each. A peak between two samples is missed, except
    that of the process itself, which the kernel keeps.
    """

    def __init__(self, process_id: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._process_id = process_id
        self._is_over = threading.Event()

    def run(self) -> None:
        """Sample until the end."""
        while not self._is_over.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, _tree_bytes(self._process_id))

    def end(self) -> None:
        """Stop sampling."""
        self._is_over.set()
        self.join()


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - pathlib would be most of this process
        return file.read()


def _tree_bytes(process_id: int) -> int:
    folder = f"/proc/{process_id}"
    try:
        size = int(_read(f"{folder}/statm").split()[1]) * _PAGE
        threads = os.listdir(f"{folder}/task")  # noqa: PTH208
        children = [_read(f"{folder}/task/{thread}/children") for thread in threads]
    except (OSError, IndexError):
        return 0  # it has ended, or this system has no such files
    return size + sum(_tree_bytes(int(child)) for told in children for child in told.split())


def main() -> int:
    """Run the command; return its exit status."""
    begin = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(sys.argv[1:], stdin=quiet, stdout=quiet, stderr=quiet)
    sampler = _Sampler(process.pid)
    sampler.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begin
    sampler.end()
    process.returncode = os.waitstatus_to_exitcode(status)
    peak_bytes = max(usage.ru_maxrss * 1024, sampler.peak_bytes)
    cpu_s = usage.ru_utime + usage.ru_stime
    print(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": peak_bytes / 1e6}))
    return 1 if process.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
