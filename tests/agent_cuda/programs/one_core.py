"""Steps of a GPU that is always ahead of a CPU core, which busy processes share.

python one_core.py LIBCUDA LIBCUPTI STEPS WORKERS

A step launches four kernels of 500 us and waits for them by spinning, as CUDA does by default. The
program and WORKERS processes that compute all the time have a single core.
"""

# mypy: ignore-errors

import ctypes
import multiprocessing
import os
import sys
import time

from warpline import annotate

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
ctypes.CDLL(sys.argv[1]).cuInit(0)
cupti = ctypes.CDLL(sys.argv[2])
RUNTIME, LAUNCH, SYNCHRONIZE = 2, 13, 22
KERNEL_NS = 500_000
numbers = iter(range(1, 1_000_000))
done_ns = [0]  # when the GPU has done all that was launched


def call(function, work):
    number = next(numbers)
    cupti.fake_call(RUNTIME, function, 0, number, 0)
    work(number)
    cupti.fake_call(RUNTIME, function, 1, number, 0)


def launch(number):
    start_ns = max(done_ns[0], time.monotonic_ns() + 5_000)
    done_ns[0] = start_ns + KERNEL_NS
    cupti.fake_kernel(number, b"kernel", ctypes.c_uint64(start_ns), ctypes.c_uint64(KERNEL_NS))


def wait(number):
    while time.monotonic_ns() < done_ns[0]:
        pass


def compute():
    while True:
        sum(range(10_000))


fork = multiprocessing.get_context("fork")
workers = [fork.Process(target=compute, daemon=True) for _ in range(int(sys.argv[4]))]
for worker in workers:
    worker.start()
for index in range(int(sys.argv[3])):
    with annotate(f"step_{index}"):
        for _ in range(4):
            call(LAUNCH, launch)
        call(SYNCHRONIZE, wait)
for worker in workers:
    worker.kill()
