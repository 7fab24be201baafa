"""The streams, contexts and events in the parameters of calls."""

from __future__ import annotations

import re

import pytest
from agent_cuda import cuda_logs as logs

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.capture.session.control import RangeMode

DRIVER, RUNTIME = 1, 2
CONTEXT = 2  # the fake's current one
STREAM, OTHER = "d000", "e000"  # handles of its streams 13 and 14
OWN = 21  # the number of a thread's own stream
EVENT = "abc0"


def _call(domain, number, *parameters, status=0):
    return ["call_with", domain, number, status, ",".join(parameters) or "0"]


def _concerns(folder):
    return [(call.name, call.place, call.event) for call in logs.found(folder, logs.CALL)]


def test_calls_say_what_they_concern(run):
    event = int(EVENT, 16)
    none, null = (logs.NONE, CONTEXT), (logs.NULL_STREAM, CONTEXT)
    calls = {
        (RUNTIME, 22, STREAM): ("cudaStreamSynchronize_v3020", (13, CONTEXT), None),
        (RUNTIME, 25, STREAM, "1"): ("cudaStreamBeginCapture_v10000", (13, CONTEXT), None),
        (RUNTIME, 44, STREAM, "5000"): ("cudaStreamEndCapture_v10000", (13, CONTEXT), None),
        (RUNTIME, 30, EVENT, OTHER): ("cudaEventRecord_v3020", (14, CONTEXT), event),
        (RUNTIME, 31, EVENT, "0", "1"): ("cudaEventRecordWithFlags_v11010", null, event),
        (RUNTIME, 32, EVENT): ("cudaEventSynchronize_v3020", none, event),
        (RUNTIME, 33, EVENT): ("cudaEventDestroy_v3020", None, event),
        (RUNTIME, 34, OTHER, EVENT, "0"): ("cudaStreamWaitEvent_v3020", (14, CONTEXT), event),
        (RUNTIME, 37): ("cudaDeviceSynchronize_v3020", none, None),
        (RUNTIME, 38, STREAM): ("cudaStreamDestroy_v5050", None, None),
        (DRIVER, 11): ("cuCtxSynchronize", none, None),
        (DRIVER, 12, "2000"): ("cuCtxSynchronize_v2", none, None),
        (DRIVER, 12, "3000"): ("cuCtxSynchronize_v2", (logs.NONE, 3), None),
        (DRIVER, 13, OTHER): ("cuStreamSynchronize", (14, CONTEXT), None),
        (DRIVER, 15, STREAM, EVENT, "0"): ("cuStreamWaitEvent", (13, CONTEXT), event),
        (DRIVER, 16, EVENT, STREAM): ("cuEventRecord", (13, CONTEXT), event),
        (DRIVER, 18, EVENT): ("cuEventSynchronize", none, event),
        (DRIVER, 19, EVENT): ("cuEventDestroy_v2", None, event),
        (RUNTIME, 24, "0"): ("cudaMalloc_v3020", None, None),
    }
    words = [word for call in calls for word in _call(*call)]
    assert _concerns(run("init", *words)) == [*calls.values()]


def test_default_streams(run):
    own, null = (OWN, CONTEXT), (logs.NULL_STREAM, CONTEXT)
    calls = {
        (RUNTIME, 22, "0"): null,  # cudaStreamSynchronize
        (RUNTIME, 22, "1"): null,
        (RUNTIME, 22, "2"): own,
        (RUNTIME, 36, "0"): own,  # of programs whose default stream is the thread's own
        (RUNTIME, 36, "1"): null,
        (RUNTIME, 36, "2"): own,
        (RUNTIME, 36, STREAM): (13, CONTEXT),
        (RUNTIME, 35, "0", EVENT, "0"): own,
        (RUNTIME, 39, EVENT, "0"): own,
        (DRIVER, 14, "0"): own,
        (DRIVER, 17, EVENT, "0", "0"): own,
    }
    words = [word for call in calls for word in _call(*call)]
    assert [place for _, place, _ in _concerns(run("init", *words))] == [*calls.values()]


def test_a_stream_is_asked_for_once_until_streams_end(run, tmp_path):
    told = tmp_path / "told"
    wait = _call(RUNTIME, 22, STREAM)
    other = _call(RUNTIME, 22, OTHER)
    ends = [*_call(RUNTIME, 38, OTHER), "streams_end"]
    words = [*wait, *other, *wait, *other, *ends, *wait, *wait]
    folder = run("init", *words, environment={"FAKE_CUPTI_LOG": str(told)})
    places = [place[0] for name, place, _ in _concerns(folder) if "Synchronize" in name]
    assert places == [13, 14, 13, 14, 14, 14]  # the fake's numbers have grown by one
    asked = re.findall(r"^stream_id (\d+)$", told.read_text(), re.MULTILINE)
    assert asked == [str(int(handle, 16)) for handle in (STREAM, OTHER, STREAM)]


def test_a_stream_that_cupti_does_not_know(run, cuda):
    unknown = run("init", *_call(RUNTIME, 22, "40"), *_call(RUNTIME, 22, "40"))
    assert [place for _, place, _ in _concerns(unknown)] == [(logs.NONE, CONTEXT)] * 2
    words = [*_call(RUNTIME, 22, STREAM), *_call(DRIVER, 12, "3000"), *_call(RUNTIME, 22, "0")]
    bare = run("init", *words, cupti=cuda.cupti12_bare)
    none = (logs.NONE, CONTEXT)
    assert [place for *_, place, _ in _concerns(bare)] == [none, none, (logs.NULL_STREAM, CONTEXT)]


@pytest.mark.parametrize("keys", [{"cuda_waits": "cupti"}, {"cuda_sync": 0, "cuda_event": 0}])
def test_they_say_nothing_where_that_is_not_asked_for(run, keys):
    words = [*_call(RUNTIME, 22, STREAM), *_call(RUNTIME, 30, EVENT, STREAM)]
    folder = run("init", *words, **keys)
    assert [call[1:] for call in _concerns(folder)] == [(None, None)] * 2
    (collecting,) = logs.found(folder, logs.COLLECTING)
    assert collecting.collects & (32 | 64 | 1024) == (32 | 64 if "cuda_waits" in keys else 0)


@pytest.mark.parametrize("waits", ["calls", "cupti"])
def test_cuptis_kinds_of_waits_and_events_are_on_where_they_are_asked_for(run, tmp_path, waits):
    told = tmp_path / "told"
    folder = run("init", "records", cuda_waits=waits, environment={"FAKE_CUPTI_LOG": str(told)})
    switched = told.read_text().split("\n")
    assert ("on 38" in switched) == ("on 36" in switched) == (waits == "cupti")
    assert bool(logs.found(folder, logs.WAIT)) == (waits == "cupti")


def test_sampled_steps_have_them_from_calls_whatever_is_asked_for(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *("init", "start", *_call(RUNTIME, 22, STREAM), "start", *_call(RUNTIME, 22, STREAM)),
        mode=RangeMode.STEPS,
        sample_calls=1,
        sample_steps=1,
        sample_every=2,
        cuda_waits="cupti",
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    assert "on 38" not in told.read_text().split("\n")
    assert _concerns(folder) == [("cudaStreamSynchronize_v3020", (13, CONTEXT), None)]


def test_copies_and_fills_of_nothing_lead_to_no_work(run):
    host_to_host, host_to_device = "0", "1"
    calls = {
        (RUNTIME, 40, "10", "20", "40", host_to_device): True,  # cudaMemcpy
        (RUNTIME, 40, "10", "20", "0", host_to_device): False,
        (RUNTIME, 40, "10", "20", "40", host_to_host): False,
        (RUNTIME, 20, "10", "20", "0", host_to_device, STREAM): False,  # cudaMemcpyAsync
        (RUNTIME, 41, "10", "0", "1"): True,  # cudaMemset
        (RUNTIME, 41, "10", "ff", "0"): False,
        (RUNTIME, 42, "10", "0", "20", "1", "8"): True,  # cudaMemcpyPeerAsync
        (RUNTIME, 42, "10", "0", "20", "1", "0"): False,
        (RUNTIME, 43, "0", "0", "0", "0", "0", "0"): True,  # cudaMemcpy2D: not looked at
        (DRIVER, 21, "10", "0", "1"): True,  # cuMemsetD8_v2
        (DRIVER, 21, "10", "0", "0"): False,
        (DRIVER, 22, "10", "20", "1", "0"): True,  # cuMemcpyHtoDAsync_v2_ptsz
        (DRIVER, 22, "10", "20", "0", STREAM): False,
    }
    words = [word for call in calls for word in _call(*call)]
    found = logs.found(run("init", *words), logs.CALL)
    assert [bool(call.flags & 1) for call in found] == [*calls.values()]


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_a_recording_has_the_waits_of_a_program(run, tmp_path):
    folder = run(
        "init",
        *("launch", 2),
        *_call(RUNTIME, 30, EVENT, STREAM),
        *_call(RUNTIME, 34, OTHER, EVENT, "0"),
        *_call(RUNTIME, 32, EVENT),
        *_call(DRIVER, 13, "0"),
        *_call(RUNTIME, 37),
    )
    finish(folder, tmp_path / "x.warpline")
    trace = warpline.open(tmp_path / "x.warpline")
    natives = trace["stream"]["native_id"].to_list()
    (recorded,) = trace["event_record"].to_dicts()
    assert natives[recorded["stream_id"]] == 13
    (ordered,) = trace["stream_wait"].to_dicts()
    assert natives[ordered["stream_id"]] == 14
    assert ordered["event_sync_id"] == recorded["event_sync_id"]
    waits = trace["host_wait"].to_dicts()
    assert [wait["kind"] for wait in waits] == ["Event", "Stream", "Context"]
    assert waits[0]["event_sync_id"] == recorded["event_sync_id"]
    assert natives[waits[1]["stream_id"]] == 7  # the null stream of the context
    calls = {call["correlation_id"]: call for call in trace["api_call"].to_dicts()}
    for wait in waits:
        call = calls[wait["correlation_id"]]
        assert (wait["start_ns"], wait["end_ns"]) == (call["start_ns"], call["end_ns"])
