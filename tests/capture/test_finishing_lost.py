"""GPU work without a record: what is missing, what is reported, what is not missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from capture.cuda_writer import CAPTURES, DRIVER, IS_GRAPH, LAUNCHES
from capture.finished import of_process, read_cuda
from capture.raw_writer import ORIGIN_NS

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


def test_work_without_times_is_lost_and_told(tmp_path: Path) -> None:
    log = of_process()
    log.launch(1, 2, 1)
    log.kernel("f", None, None, 1)
    log.launch(3, 4, 2)
    log.kernel("f", 10, None, 2)
    log.wait(3, 0 - ORIGIN_NS, 9, 3)
    trace, finished = read_cuda(tmp_path, log)
    assert (len(trace["kernel"]), len(trace["host_wait"]), finished.lost) == (0, 0, 3)
    assert trace.meta.lost == {"CUDA records without a time": 3}
    assert "CUPTI returned 3 GPU records without timestamps" in trace.meta.warnings[0]


def test_what_a_killed_process_launched_last_is_lost(tmp_path: Path) -> None:
    log = of_process(closed=None)
    for number in range(1, 6):
        log.launch(number * 10, number * 10 + 5, number)
    log.call("cudaGraphLaunch_v10000", 80, 85, 6, flags=LAUNCHES | IS_GRAPH)
    log.call("cudaLaunchKernel_v7000", 90, 95, 7, flags=LAUNCHES, status=1)
    for number in (8, 9, 10, 11):
        log.call("cudaMemcpyAsync_v3020", 100, 105, number, flags=LAUNCHES)
    log.call("cuMemsetD8Async", 110, 112, 12, flags=LAUNCHES, domain=DRIVER)
    log.call("cudaMemcpy_v3020", 120, 122, 13)  # of no bytes
    log.kernel("f", 20, 30, 1)
    log.kernel("f", 30, 40, 2)
    log.copy(100, 110, 8, 64)
    log.copy(100, 110, 9, 64, kind=10, memory=(3, 3), peers=(0, 0))
    trace, finished = read_cuda(tmp_path, log)
    assert trace.meta.lost == {
        "kernels": 3,
        "CUDA graph launches": 1,
        "copies": 2,
        "memsets": 1,
    }
    assert finished.lost == 7
    told = (
        "3 kernels, 1 CUDA graph launch, 2 copies and 1 memset of process 100"
        " have no record because the process was killed"
    )
    assert told in trace.meta.warnings


def test_what_ran_when_recording_ended_is_told_but_not_lost(tmp_path: Path) -> None:
    log = of_process()
    log.launch(10, 15, 1)
    trace, finished = read_cuda(tmp_path, log)
    assert finished.lost == 0
    told = "1 kernel of process 100 has no record because recording ended before it"
    assert trace.meta.warnings == (told,)


def test_copies_that_were_not_recorded_are_not_missing(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.collecting(5, 2)
    log.call("cudaMemcpy_v3020", 10, 12, 1, flags=LAUNCHES)
    log.call("cudaMemset_v3020", 20, 22, 2, flags=LAUNCHES)
    log.collecting(30, 4)
    log.call("cudaMemcpy_v3020", 40, 42, 3, flags=LAUNCHES)
    log.call("cudaMemset_v3020", 50, 52, 4, flags=LAUNCHES)
    log.call("cudaStreamBeginCapture_v10000", 60, 62, 5, flags=CAPTURES)
    log.call("cudaMemcpyAsync_v3020", 70, 72, 6, flags=LAUNCHES)
    log.call("cudaStreamEndCapture_v10000", 80, 82, 7, flags=CAPTURES)
    trace, _ = read_cuda(tmp_path, log)
    assert trace.meta.lost == {"copies": 1}


def test_launches_while_kernels_were_not_recorded_are_not_missing(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.launch(10, 15, 1)
    log.collecting(20, 1)
    log.launch(30, 35, 2)
    log.collecting(40, 3)
    log.launch(50, 55, 3)
    _, finished = read_cuda(tmp_path, log)
    assert finished.lost == 2


def test_records_that_cupti_dropped(tmp_path: Path) -> None:
    log = of_process()
    log.launch(10, 15, 1)
    log.lost(20, 1234)
    trace, finished = read_cuda(tmp_path, log)
    assert (finished.lost, trace.meta.lost) == (1234, {"CUDA records": 1234})
    (warning,) = trace.meta.warnings
    assert warning.startswith("CUPTI dropped 1,234 records because its buffers were full: ")
