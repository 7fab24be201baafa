"""Jobs of several processes as in training programs; the first argument selects one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.queues import Queue
from pathlib import Path

from processes.programs.ledger import tell, wait_for, work

Tasks = Queue  # of ints


def loader() -> None:
    """Workers that stay between epochs and are ended by SIGTERM, as a data loader's are.

    Each has a queue of its own, as there, so each gets its share however they are scheduled.
    """
    context = multiprocessing.get_context("fork")
    done = context.Queue()
    tasks = [context.Queue() for _ in range(4)]
    workers = [context.Process(target=load, args=(own, done), daemon=True) for own in tasks]
    for worker in workers:
        worker.start()
    for _ in range(3):
        for batch in range(20):
            tasks[batch % len(tasks)].put(batch)
        for _ in range(20):
            done.get()
            work("step")
    for worker in workers:
        worker.terminate()
        worker.join()


def load(tasks: Tasks[int], done: Tasks[int]) -> None:
    """Load batches until killed."""
    while True:
        batch = tasks.get()
        work("load")
        done.put(batch)


def ranks(count: str) -> None:
    """Start one process per rank; the one that fails is started again, with all others."""
    for attempt in ("0", "1"):
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "rank"],
                env={**os.environ, "RANK": str(rank), "ATTEMPT": attempt},
            )
            for rank in range(int(count))
        ]
        statuses = [process.wait() for process in started]
        if not any(statuses):
            return
    sys.exit(1)


def rank() -> None:
    """One rank: rank 1 fails in its first attempt."""
    number = int(os.environ["RANK"])
    work(f"step of rank {number}", 10)
    if number == 1 and os.environ.get("ATTEMPT") == "0":
        os._exit(1)


def daemon(seconds: str) -> None:
    """A daemon as the books make it: two forks, a session of its own, nothing open."""
    work("parent", 2)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.umask(0)
            os.closerange(0, 256)
            work("daemon", 3)
            tell("daemon")
            wait_for("parent")
            time.sleep(float(seconds))
            work("daemon", 4)
        os._exit(0)
    wait_for("daemon")
    work("parent", 1)
    tell("parent")


def stripped() -> None:
    """A child that gets an environment of its own."""
    work("parent")
    code = "import time; time.sleep(1.3)"
    subprocess.run(["env", "-i", sys.executable, "-c", code], check=True)


def odd_surroundings() -> None:
    """A program that closes files, changes its folder and mask, and deletes where it is."""
    Path("deleted").mkdir()
    os.chdir("deleted")
    os.umask(0o777)
    os.closerange(3, 256)
    Path("../deleted").rmdir()
    work("here", 3)
    if os.fork() == 0:
        os.chdir("/")
        work("there", 4)
        os._exit(0)
    os.wait()
    subprocess.run([sys.executable, __file__, "small"], check=True, cwd="/")


def small() -> None:
    """A single range."""
    work("small")


def held(seconds: str) -> None:
    """A program that ends in order when SIGTERM comes, and leaves a child that does not."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        work("stubborn")
        tell("ready")
        time.sleep(float(seconds))
        work("stubborn")
        os._exit(0)
    wait_for("ready")
    time.sleep(float(seconds))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
