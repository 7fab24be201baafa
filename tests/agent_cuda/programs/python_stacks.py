"""Calls CUDA from Python in many ways, and writes down the stack at each call.

    python python_stacks.py LIBCUDA LIBCUPTI LEDGER CASE...

The ledger has, by correlation id, the frames of the call, innermost first: name, file, line.
"""

# The ways to call are what this program is about, also roundabout ones.
# ruff: noqa: PLC3002, PLW0108, C417, ARG005, TRY301
# mypy: ignore-errors

import asyncio
import contextlib
import ctypes
import functools
import json
import os
import sys
import threading
import traceback
from pathlib import Path

driver = ctypes.CDLL(sys.argv[1])
RELEASED, HELD = ctypes.CDLL(sys.argv[2]).fake_call, ctypes.PyDLL(sys.argv[2]).fake_call
RUNTIME, SYNCHRONIZE = 2, 22
ledger = {}
numbers = iter(range(1, 1_000_000))


def begin(function):
    """Begin a call; write down the stack of who is about to end it."""
    number = next(numbers)
    function(RUNTIME, SYNCHRONIZE, 0, number, 0)
    frames = traceback.walk_stack(sys._getframe(1))
    ledger[number] = [
        (getattr(frame.f_code, "co_qualname", frame.f_code.co_name), frame.f_code.co_filename, line)
        for frame, line in frames
    ]
    return RUNTIME, SYNCHRONIZE, 1, number, 0


def call():
    HELD(*begin(HELD))
    RELEASED(*begin(RELEASED))


class Module:
    def forward(self):
        call()

    __call__ = forward

    @property
    def size(self):
        self()
        return 1

    @staticmethod
    def static():
        return Module().size


def nested():
    def inner(depth):
        return inner(depth - 1) if depth else Module.static()

    inner(5)
    (lambda: call())()
    [call() for _ in range(2)]
    return {
        "a dict over several lines": 1,
        "call": call(),
    }


def generated():
    def generator(depth):
        if depth:
            yield from generator(depth - 1)
        call()
        yield depth

    list(generator(3))
    sum(item for item in generator(2))
    waiting = generator(0)
    next(waiting)
    with contextlib.closing(waiting), contextlib.suppress(ValueError), context():
        call()


@contextlib.contextmanager
def context():
    call()
    try:
        yield
    finally:
        call()


class Key:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        call()
        return self.value < other.value

    def __del__(self):
        call()


def through_c():
    sorted([3, 1, 2], key=lambda item: call() or item)
    sorted([Key(2), Key(1)])
    functools.reduce(lambda one, other: call() or other, [1, 2, 3])
    list(map(lambda item: call(), [1]))
    functools.partial(call)()
    exec("call()\n\ncall()", {"call": call})
    eval("call()")
    callback = ctypes.CFUNCTYPE(None)(call)
    callback()


def asynchronous():
    async def leaf(event):
        await event.wait()
        call()
        return 1

    async def many():
        for item in range(2):
            call()
            yield item

    async def main():
        event = asyncio.Event()
        tasks = [asyncio.create_task(leaf(event)) for _ in range(3)]
        await asyncio.sleep(0)
        event.set()
        await asyncio.gather(*tasks)
        async for _ in many():
            call()

    asyncio.run(main())


def exceptional():
    def fails(depth):
        try:
            if depth:
                fails(depth - 1)
            raise ValueError("no")
        except ValueError:
            call()
            raise
        finally:
            call()

    try:
        fails(3)
    except ValueError as error:
        call()
        traceback.format_exception(type(error), error, error.__traceback__)


def deep():
    def recurse(depth):
        if depth:
            return recurse(depth - 1)
        return call()

    recurse(200)
    sys.setrecursionlimit(5000)
    recurse(3000)


def threads():
    def work():
        for _ in range(20):
            nested()
            call()

    running = [threading.Thread(target=work) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def long_lines():
    """Lines far apart, more than a byte can say, and code that is made again and again."""
    for number in range(300):
        text = "\n" * (number * 7) + "def made(call):\n" + "\n" * 300 + "    call()\n"
        scope = {}
        exec(compile(text, f"made.{number % 3}", "exec"), scope)
        scope["made"](call)
        del scope
    names = {}
    exec(compile("def größe_函数_𠀋(call):\n    call()\n", "dateï_文件.py", "exec"), names)
    next(function for name, function in names.items() if name != "__builtins__")(call)


def forked():
    child = os.fork()
    if child == 0:
        ledger.clear()
        call()
        nested()
        write(sys.argv[3] + ".child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    call()


def daemons():
    """Threads that go on calling, without the GIL and with it, while the interpreter ends."""

    def work(function, depth):
        if depth:
            return work(function, depth - 1)
        while True:
            function(RUNTIME, SYNCHRONIZE, 0, 0, 0)
            function(RUNTIME, SYNCHRONIZE, 1, 0, 0)

    for function in (RELEASED, HELD, RELEASED, HELD):
        threading.Thread(target=work, args=(function, 30), daemon=True).start()
    call()


def write(name):
    Path(name).write_text(json.dumps(ledger), encoding="utf-8")


if __name__ == "__main__":
    assert driver.cuInit(0) == 0
    for case in sys.argv[4:]:
        globals()[case]()
    write(sys.argv[3])
