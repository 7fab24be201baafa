"""Idle time that is charged to earlier blocking calls, computed by hand."""

from __future__ import annotations

import numpy as np

from warpline.derived.idle.debt import Charged, Idle, charge
from warpline.derived.idle.host_blocking import Blocking
from warpline.derived.time_parts import TimePart

SYNC, INPUT, ALLOCATOR = map(int, (TimePart.HOST_SYNC, TimePart.INPUT, TimePart.ALLOCATOR))


def blocking(*calls: tuple[int, int, int, int]) -> Blocking:
    """Return calls with start, end, process and cause, which lost all of their time."""
    start, end, process, cause = (np.array(column, np.int64) for column in zip(*calls, strict=True))
    return Blocking(start, end, process, process, cause.astype(np.int8), end - start)


def charged(holds: Blocking, devices: int, *idle: tuple[int, int, int, int]) -> Charged:
    """Charge idle times with device, process, start and end."""
    columns = (np.array(column, np.int64) for column in zip(*idle, strict=True))
    return charge(holds, np.repeat(holds.lost_ns[:, None], devices, axis=1), Idle(*columns))


def causes(found: Charged) -> list[int]:
    return [int(cause) for cause in found.cause[found.ns > 0]]


def test_idle_time_is_charged_until_the_lost_time_is_used_up() -> None:
    found = charged(
        blocking((0, 100, 0, SYNC)), 1, (0, 0, 110, 150), (0, 0, 160, 250), (0, 0, 260, 300)
    )
    assert found.ns.tolist() == [40, 60, 0]
    assert causes(found) == [SYNC, SYNC]


def test_only_a_call_that_lost_more_than_is_left_replaces_the_one_before() -> None:
    holds = blocking((0, 100, 0, SYNC), (150, 180, 0, ALLOCATOR), (220, 300, 0, INPUT))
    # After 40 of 100 ns, 60 are left: 30 more change nothing. Then 20 are left: 80 replace them.
    found = charged(holds, 1, (0, 0, 110, 150), (0, 0, 180, 220), (0, 0, 310, 350))
    assert found.ns.tolist() == [40, 40, 40]
    assert causes(found) == [SYNC, SYNC, INPUT]


def test_each_process_is_charged_for_its_own_calls_on_each_device() -> None:
    holds = blocking((0, 100, 0, SYNC), (0, 50, 2, INPUT))
    found = charged(
        holds,
        2,
        (0, 0, 110, 150),
        (0, 2, 120, 160),
        (0, 1, 130, 170),  # this process has no blocking calls
        (1, 0, 200, 300),
        (1, 2, 200, 300),
        (0, 0, 400, 500),
        (0, 2, 400, 500),
    )
    assert found.ns.tolist() == [40, 40, 0, 100, 50, 60, 10]
    assert causes(found) == [SYNC, INPUT, SYNC, INPUT, SYNC, INPUT]
