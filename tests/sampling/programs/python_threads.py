"""Threads of known work, and how long each function ran: python_threads.py RESULT [fork]."""

import json
import os
import pathlib
import sys
import threading
import time

RAN_S: dict[str, float] = {}


def short_work():
    count = 0
    while count < 100:
        count += 1


def long_work():
    count = 0
    while count < 50000:
        count += 1


def in_generator():
    count = 0
    while count < 50000:
        count += 1
        if count % 100 == 0:
            yield count


def drain():
    for _ in in_generator():
        pass


def run(function, times):
    begin = time.perf_counter()
    for _ in range(times):
        function()
    RAN_S[function.__name__] = RAN_S.get(function.__name__, 0) + time.perf_counter() - begin


def sleeper(done):
    done.wait(60)  # waits here


def main():
    done = threading.Event()
    thread = threading.Thread(target=sleeper, args=(done,))
    thread.start()
    end = time.perf_counter() + 0.6
    while time.perf_counter() < end:
        run(short_work, 400)
        run(long_work, 2)
        run(drain, 2)
    done.set()
    thread.join()
    pathlib.Path(sys.argv[1]).write_text(json.dumps(RAN_S))


child = os.fork() if "fork" in sys.argv else None
if child == 0:
    sys.argv[1] += ".child"
main()
if child:
    os.waitpid(child, 0)
sys.stdout.write("worked\n")
