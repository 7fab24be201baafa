"""Processes and threads created in every way; the first argument selects it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from multiprocessing.pool import Pool

from processes.programs.ledger import work


def fork() -> None:
    """A process, its child and its grandchild, at the same time."""
    work("before", 3)
    child = os.fork()
    if child == 0:
        work("child", 5)
        grandchild = os.fork()
        if grandchild == 0:
            work("grandchild", 7)
            os._exit(0)
        work("child", 1)
        os.waitpid(grandchild, 0)
        sys.exit(0)
    work("after", 2)
    os.waitpid(child, 0)


def fork_in_range() -> None:
    """A child that begins within a range of its parent, and ends it in its own code."""
    import nvtx

    nvtx.push_range("outer")
    child = os.fork()
    if child == 0:
        work("child", 2)
        nvtx.pop_range()
        work("child", 1)
        os._exit(0)
    os.waitpid(child, 0)
    work("inner")
    nvtx.pop_range()


def pool(method: str, pools: str) -> None:
    """A pool of workers, and perhaps others after it."""
    work("parent", 2)
    context = multiprocessing.get_context(method)
    for _ in range(int(pools)):
        with context.Pool(2) as workers:
            finish(workers)
    work("parent", 1)


def finish(workers: Pool) -> None:
    """Give the pool its work and let it end in order."""
    workers.starmap(work, [("task", number) for number in range(1, 21)], chunksize=1)
    workers.close()
    workers.join()


def nested() -> None:
    """A subprocess of a subprocess, through a shell."""
    work("first", 2)
    again = f"exec {sys.executable} {__file__} nested2"
    subprocess.run(["sh", "-c", again], check=True)
    work("first", 1)


def nested2() -> None:
    """The second of three."""
    work("second", 4)
    subprocess.run([sys.executable, __file__, "nested3"], check=True)


def nested3() -> None:
    """The third of three."""
    work("third", 8)


def replaced() -> None:
    """A program that replaces itself by another one: same process, new image."""
    work("old", 6)
    os.execv(sys.executable, [sys.executable, __file__, "nested3"])


def threads(count: str, ranges: str) -> None:
    """Threads at the same time."""
    gate = threading.Barrier(int(count))

    def run(number: int) -> None:
        gate.wait()
        work(f"thread {number}", int(ranges))

    started = [threading.Thread(target=run, args=(number,)) for number in range(int(count))]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def short_threads(count: str) -> None:
    """Threads one after another, each with one range."""
    for _ in range(int(count)):
        thread = threading.Thread(target=work, args=("short",))
        thread.start()
        thread.join()


def fork_with_threads() -> None:
    """Forks while other threads record."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            work("busy", 10)

    busy = [threading.Thread(target=run) for _ in range(3)]
    for thread in busy:
        thread.start()
    for _ in range(10):
        child = os.fork()
        if child == 0:
            work("child", 3)
            os._exit(0)
        os.waitpid(child, 0)
    stop.set()
    for thread in busy:
        thread.join()


def names(count: str) -> None:
    """Many names, each twice, the second time in another order; and domains."""
    for number in range(int(count)):
        work(f"name {number}")
    for number in reversed(range(int(count))):
        work(f"name {number}")
    for domain in range(40):
        work(f"in domain {domain}", 2, domain=f"domain {domain}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
