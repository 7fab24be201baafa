"""A program that records itself and the processes that it creates meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

import nvtx
from processes.programs.ledger import work

import warpline


def task(number: int) -> int:
    """What a worker does."""
    work("task", 3)
    return number


def fork() -> None:
    """A child that outlives nothing."""
    if os.fork() == 0:
        work("child", 6)
        os._exit(0)
    os.wait()


def pool(method: str) -> None:
    """A pool that ends in order."""
    with multiprocessing.get_context(method).Pool(2) as workers:
        workers.map(task, range(10))
        workers.close()
        workers.join()


def killed() -> None:
    """No end in order."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(way: str, *arguments: str) -> None:
    """Record in the way that is asked for."""
    with warpline.profile("run.warpline"):
        work("inside", 5)
        globals()[way](*arguments)
    nvtx.mark("after")  # not recorded any more


if __name__ == "__main__":
    main(*sys.argv[1:])
