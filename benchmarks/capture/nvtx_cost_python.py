"""Times NVTX calls from Python: prints ``FORM NANOSECONDS``, like nvtx_cost.c.

Usage: python nvtx_cost_python.py COUNT
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import nvtx

PARTS = 101
WARM_UP = 2000

DOMAIN = nvtx.get_domain("cost")
ATTRIBUTES = DOMAIN.get_event_attributes(message="a registered range", color="blue")


def push_pop(count: int) -> None:
    """Call the two functions."""
    for _ in range(count):
        nvtx.push_range("a range of the program")
        nvtx.pop_range()


def annotate_with(count: int) -> None:
    """Create an annotation and enter it."""
    for _ in range(count):
        with nvtx.annotate("a range of the program"):
            pass


def annotate_reused(count: int) -> None:
    """Enter an annotation created once, as decorated functions do."""
    annotation = nvtx.annotate("a range of the program", color="green", domain="cost")
    for _ in range(count):
        with annotation:
            pass


def domain_push_pop(count: int) -> None:
    """Call the methods of a domain with attributes created once."""
    for _ in range(count):
        DOMAIN.push_range(ATTRIBUTES)
        DOMAIN.pop_range()


def start_end(count: int) -> None:
    """Call the two functions."""
    for _ in range(count):
        nvtx.end_range(nvtx.start_range("a range of the program"))


def mark(count: int) -> None:
    """Set a mark."""
    for _ in range(count):
        nvtx.mark("a moment")


def nanoseconds(calls: Callable[[int], None], count: int) -> float:
    """Return the time per call, as the median of several batches."""
    calls(WARM_UP)
    times = []
    for _ in range(PARTS):
        begin_ns = time.perf_counter_ns()
        calls(count // PARTS)
        times.append((time.perf_counter_ns() - begin_ns) / (count // PARTS))
    return statistics.median(times)


if __name__ == "__main__":
    forms = [push_pop, annotate_with, annotate_reused, start_end, mark]
    if hasattr(DOMAIN, "push_range"):  # from 0.2.12 on
        forms.append(domain_push_pop)
    for function in forms:
        form = function.__name__.replace("_", "-")
        print(f"py-{form} {nanoseconds(function, int(sys.argv[1])):.2f}", flush=True)
