"""Backtraces of small exports."""

from __future__ import annotations

from support.nsys_exports import PROCESS, THREAD, call, strings

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def test_backtraces_of_three_tables_share_stacks(opened, rows_of):
    frame = {"symbol": 0, "module": 1, "stackDepth": 0, "originalIP": 16}
    trace = opened(
        {
            "StringIds": strings("main", "a.out", "pthread_cond_wait"),
            "CUDA_CALLCHAINS": [{"id": 0, **frame}, {"id": 0, **frame, "stackDepth": 1}],
            "OSRT_CALLCHAINS": [{"id": 1, **frame, "unresolved": 1}],
            "SAMPLING_CALLCHAINS": [{"id": 1, **frame}],
            CALLS: [call(1, 2, callchainId=0), call(2, 3, callchainId=None)],
            "OSRT_API": [
                {"start": 0, "end": 0, "eventClass": 31, "globalTid": PROCESS, "nameId": 0},
                {"start": 1, "end": 2, "globalTid": THREAD, "nameId": 2, "callchainId": 1},
                {"start": 3, "end": 4, "globalTid": THREAD, "nameId": 2, "callchainId": 0},
            ],
            "COMPOSITE_EVENTS": [{"id": 1, "start": 5, "threadState": 1, "cpuCycles": 9}],
        }
    )
    stacks = {
        table: [stack for (stack,) in rows_of(trace, table, "stack_id")]
        for table in ("api_call", "os_call", "cpu_sample")
    }
    # main; main, unresolved; main called by main
    assert stacks["api_call"] == [2, None]
    assert stacks["os_call"] == [1, None], "0 is how OSRT_API writes none"
    assert stacks["cpu_sample"] == [0], "the caller of the API call, too"
    assert rows_of(trace, "stack", "parent_id", "frame_id", "depth") == [
        (None, 0, 0),
        (None, 1, 0),
        (0, 0, 1),
    ]
    assert rows_of(trace, "frame", "symbol_id", "module_id", "is_unresolved", "address") == [
        ("main", "a.out", False, 16),
        ("main", "a.out", True, 16),
    ]
    assert rows_of(trace, "frame", "kind") == [("Native",), ("Native",)]
    assert len(stacks["os_call"]) == 2, "the record of the trace's beginning is no call"
    assert rows_of(trace, "thread", "tid") == [(4242,)], "nor has it a thread"
    assert rows_of(trace, "cpu_sample", "state", "thread_id") == [("Running", None)]


def test_a_backtrace_in_the_kernel_and_one_of_which_frames_are_missing(opened, rows_of):
    frame = {"symbol": 0, "module": 1, "originalIP": None}
    trace = opened(
        {
            "StringIds": strings("schedule", "[kernel]", "main"),
            "SAMPLING_CALLCHAINS": [
                {"id": 7, **frame, "symbol": 2, "stackDepth": 5, "kernelMode": 0},
                {"id": 7, **frame, "stackDepth": 2, "kernelMode": 1},
            ],
            "COMPOSITE_EVENTS": [
                {"id": 7, "start": 5, "threadState": 1, "cpuCycles": 9},
                {"id": 8, "start": 6, "threadState": 1, "cpuCycles": 9},
            ],
        }
    )
    assert rows_of(trace, "frame", "symbol_id", "kind", "address", "line") == [
        ("main", "Native", None, None),
        ("schedule", "Kernel", None, None),
    ]
    assert rows_of(trace, "stack", "parent_id", "frame_id", "depth") == [(None, 0, 0), (0, 1, 1)]
    assert rows_of(trace, "cpu_sample", "stack_id") == [(1,), (None,)]
