"""Functions, and the CPU time that each took: python_shares.py RESULT [thread] [fork].

Time is measured around many calls.
"""

import json
import os
import pathlib
import sys
import threading
import time

BUDGET_S = float(os.environ.get("BUDGET_S", "1.5"))


def short_one():
    count = 0
    while count < 60:
        count += 1


def short_two():
    number = 0
    while number < 20:
        number += 1


def outer_one():
    short_one()


def outer_two():
    short_two()


def in_turn():
    for _ in range(200):
        outer_one()
        outer_two()


def only_one():
    for _ in range(200):
        outer_one()


def only_two():
    for _ in range(200):
        outer_two()


def long_work():
    count = 0
    while count < 50000:
        count += 1


def in_generator():
    count = 0
    while count < 20000:
        count += 1
        if count % 50 == 0:
            yield count


def drain():
    for _ in in_generator():
        pass


def key_of(number):
    turns = 0
    while turns < 20:
        turns += 1
    return -number


def sort():
    sorted(range(400), key=key_of)


def deep(depth):
    if depth:
        deep(depth - 1)
    else:
        short_one()


def recursive():
    for _ in range(40):
        deep(30)


PHASES = (
    (in_turn, 5),
    (only_one, 2),
    (only_two, 4),
    (long_work, 2),
    (drain, 4),
    (sort, 4),
    (recursive, 3),
)


def work(used):
    end = time.thread_time() + BUDGET_S
    while time.thread_time() < end:
        for function, times in PHASES:
            begin = time.thread_time()
            for _ in range(times):
                function()
            used[function.__name__] = used.get(function.__name__, 0) + time.thread_time() - begin


def main():
    used: dict[str, float] = {}
    threads = [threading.Thread(target=work, args=({},))] if "thread" in sys.argv else []
    for thread in threads:
        thread.start()
    work(used)
    for thread in threads:
        thread.join()
    pathlib.Path(sys.argv[1]).write_text(json.dumps(used))


child = os.fork() if "fork" in sys.argv else None
if child == 0:
    sys.argv[1] += ".child"
main()
if child:
    os.waitpid(child, 0)
sys.stdout.write("worked\n")
