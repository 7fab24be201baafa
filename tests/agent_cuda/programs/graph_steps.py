"""Launches the same kernels in each step, and waits for them where it is asked to.

python graph_steps.py LIBCUDA LIBCUPTI STEPS [waits]
"""

# mypy: ignore-errors

import ctypes
import sys
import time

from warpline import annotate

ctypes.CDLL(sys.argv[1]).cuInit(0)
cupti = ctypes.CDLL(sys.argv[2])
RUNTIME, LAUNCH, SYNCHRONIZE = 2, 13, 22
NAMES = [f"kernel_{number}".encode() for number in range(4)]
numbers = iter(range(1, 1_000_000))


def call(function):
    number = next(numbers)
    cupti.fake_call(RUNTIME, function, 0, number, 0)
    return number


def end(function, number):
    cupti.fake_call(RUNTIME, function, 1, number, 0)


def step():
    for name in NAMES:
        number = call(LAUNCH)
        cupti.fake_kernel(number, name, ctypes.c_uint64(0), ctypes.c_uint64(20_000))
        time.sleep(5e-5)
        end(LAUNCH, number)
    if "waits" in sys.argv:
        wait()


def wait():
    cupti.fake_call(RUNTIME, SYNCHRONIZE, 1, call(SYNCHRONIZE), 0)  # the line of the offender


for index in range(int(sys.argv[3])):
    with annotate(f"step_{index}"):
        step()
