"""The program's CUDA API calls: which are recorded, and with which fields."""

from __future__ import annotations

from collections import Counter

from agent_cuda import cuda_logs as logs

LAUNCH = "cudaLaunchKernel_v7000"


def test_the_outermost_call_is_recorded_and_leads_to_its_kernel(run):
    folder = run("init", "launch", 3, "driver_launch", 2, "new_launch", 1, "get_device", 5)
    assert logs.calls(folder) == {LAUNCH: 3, "cuLaunchKernelEx": 2, "__cudaLaunchKernel_v13000": 1}
    calls = {call.correlation: call for call in logs.found(folder, logs.CALL)}
    kernels = logs.found(folder, logs.KERNEL)
    assert len(kernels) == len(calls) == 6
    for kernel in kernels:
        call = calls[kernel.correlation]
        assert call.start <= kernel.start <= call.end
        assert call.flags == 1
    assert {call.domain for call in calls.values()} == {1, 2}


def test_calls_that_tell_nothing_are_recorded_on_request_and_none_without(run):
    everything = run("init", "launch", 1, "get_device", 2, cuda_api="all")
    assert logs.calls(everything) == {LAUNCH: 1, "cudaGetDevice_v3020": 2}
    nothing = run("init", "launch", 1, cuda_api="none")
    assert not logs.calls(nothing)
    assert len(logs.found(nothing, logs.KERNEL)) == 1
    (collecting,) = logs.found(nothing, logs.COLLECTING)
    assert collecting.collects & 1 == 0


def test_a_call_keeps_its_status_and_what_it_does(run):
    words = []
    for call, status in ((24, 2), (23, 0), (25, 0), (28, 0), (22, 0)):
        words += ["call", call, status]
    folder = run("init", *words)
    found = {one.name: (one.status, one.flags) for one in logs.found(folder, logs.CALL)}
    assert found == {
        "cudaMalloc_v3020": (2, 0),
        "cudaGraphLaunch_v10000": (0, 1 | 4),
        "cudaStreamBeginCapture_v10000": (0, 2),
        "cudaLaunchHostFunc_v10000": (0, 0),
        "cudaStreamSynchronize_v3020": (0, 0),
    }


def test_each_thread_has_its_calls_in_order(run):
    folder = run("init", "threads", 4, 50, "launch", 10)
    calls = logs.found(folder, logs.CALL)
    assert sorted(Counter(call.tid for call in calls).values()) == [10, 50, 50, 50, 50]
    assert len(logs.found(folder, logs.KERNEL)) == 210
    for tid in {call.tid for call in calls}:
        times = [time for call in calls if call.tid == tid for time in (call.start, call.end)]
        assert times == sorted(times)


def test_half_a_call_spoils_no_other(run):
    # As when recording is turned on in the midst of a call: it is left, but was not entered.
    folder = run("init", "leave", 22, "launch", 1, "enter", 22, "leave", 24, "launch", 1)
    assert logs.calls(folder) == {LAUNCH: 2}


def test_long_kernel_names_are_written_once_per_log(run):
    folder = run("init", "names", 300, "names", 300, "names", 300)
    kernels = logs.found(folder, logs.KERNEL)
    assert Counter(kernel.name for kernel in kernels) == {
        f"_Z{i}" + "k" * 200: 3 for i in range(300)
    }
    data = b"".join(path.read_bytes() for path in folder.glob("*.wlraw"))
    assert data.count(b"_Z7kkk") <= len(list(folder.glob("*.wlraw")))
