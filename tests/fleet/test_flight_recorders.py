"""Hangs by PyTorch's flight recorders: real dumps of Gloo, and NCCL's in all layouts."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.fleets import Meeting, simulate, summary
from support.flight_files import BEGIN_NS, Recorder, S, job
from support.json_schema import violations

from warpline import api
from warpline.cli import main
from warpline.errors import InputError
from warpline.fleet.answer import answer_of
from warpline.fleet.flight_calls import CallState
from warpline.fleet.flight_dumps import is_dump, rank_of_name, read_dump
from warpline.result.fleet import Fleet, FleetFinding

MESH = {
    "0": ("default_pg", (0, 1, 2, 3)),
    "tp0": ("tp", (0, 1)),
    "tp1": ("tp", (2, 3)),
}


def answer(folder: Path, recorders: list[Recorder], **how: Any) -> Fleet:
    """Return the answer from the pickles of some recorders."""
    return api.fleet([recorder.write(folder, **how) for recorder in recorders])


def only(found: Fleet) -> FleetFinding:
    (finding,) = found.findings
    return finding


# --- Real dumps ----------------------------------------------------------------------------------


def test_real_dumps_name_who_did_not_come(repository: Path, tmp_path: Path) -> None:
    folder = repository / "tests" / "data" / "flight"
    every = []
    for rank in range(4):
        path = tmp_path / f"nccl_trace_rank_{rank}"
        path.write_bytes((folder / path.name).read_bytes())
        os.utime(path, (2e9, 2e9))  # long after the calls
        every.append(path)
    found = api.fleet(every)
    finding = only(found)
    assert (finding.rule, finding.severity, finding.ranks) == ("hang", "high", ("rank 3",))
    assert (
        finding.title == "The job hangs: rank 3 did not call all_reduce 5 of group 0 (default_pg)"
    )
    assert "Ranks 0, 1 and 2 called it from train.py:22 in step and wait" in finding.claim
    assert "all_reduce 2 of group 2 from train.py:24 in step, completed" in finding.claim
    assert found.verdict.startswith("Flight recorders of 4 ranks: the job hangs: rank 3")
    own = read_dump(every[0])
    for group, called in (("0", 5), ("1", 2)):
        (place,) = [at for at, one in enumerate(own.groups) if one.name == group]
        assert own.calls.number[own.calls.group == place].tolist() == [*range(1, called + 1)]
    assert own.calls.state.tolist() == [CallState.COMPLETED] * 6 + [CallState.SCHEDULED]
    # Python's own reader agrees.
    plain = pickle.loads(every[0].read_bytes())
    assert [entry["time_created_ns"] for entry in plain["entries"]] == own.calls.created_ns.tolist()


def test_a_pickle_is_used_before_the_json_of_the_same_rank(repository: Path) -> None:
    folder = repository / "tests" / "data" / "flight"
    found = api.fleet(folder)
    assert [Path(item.path).name for item in found.left_out] == ["trace_rank_0.json"]
    assert found.left_out[0].reason == "another dump of rank 0 is used: nccl_trace_rank_0"
    json_only = read_dump(folder / "trace_rank_0.json")
    pickled = read_dump(folder / "nccl_trace_rank_0")
    for name in json_only.calls._fields:
        if name != "stack":  # which JSON lacks
            one, other = getattr(json_only.calls, name), getattr(pickled.calls, name)
            assert one.tolist() == other.tolist(), name
    assert json_only.operations == pickled.operations


# --- Who did not come ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1", "1.4", "2.0", "2.7", "2.10"])
def test_every_layout(tmp_path: Path, version: str) -> None:
    every = job(4)
    for recorder in every:
        for _ in range(3):
            recorder.call("0", "all_reduce")
        if recorder.rank != 2:
            recorder.call("0", "all_gather", "started", outputs=((64, 4),), line=77)
    finding = only(answer(tmp_path, every, version=version))
    assert (finding.rule, finding.ranks) == ("hang", ("rank 2",))
    assert "rank 2 did not call all_gather 4 of group 0" in finding.title
    assert "from train.py:77 in train_step and wait (started), for 600 s" in finding.claim
    assert "all_reduce 3 of group 0 from train.py:10 in train_step, completed" in finding.claim


def test_ranks_that_wait_in_another_group_are_not_the_cause(tmp_path: Path) -> None:
    every = job(4, MESH)
    for recorder in every:
        own = "tp0" if recorder.rank < 2 else "tp1"
        recorder.call(own, "all_reduce")
        recorder.call("0", "all_reduce")
    every[2].call("tp1", "all_reduce", "started", line=5)  # rank 3 does not come
    for rank in (0, 1):
        every[rank].call("tp0", "all_reduce")
        every[rank].call("0", "all_reduce", "started", line=6)  # ranks 2 and 3 do not
    finding = only(answer(tmp_path, every))
    assert finding.ranks == ("rank 3",)
    assert "rank 3 did not call all_reduce 2 of group tp1 (tp)" in finding.title
    assert "1 other call waits" in finding.claim


def test_ranks_that_wait_for_each_other(tmp_path: Path) -> None:
    every = job(2, {"a": ("", (0, 1)), "b": ("", (0, 1))})
    every[0].call("a", "all_reduce", "started")
    every[1].call("b", "all_reduce", "started")
    found = answer(tmp_path, every)
    assert [finding.ranks for finding in found.findings] == [("rank 1",), ("rank 0",)]


def test_a_rank_without_a_dump_may_have_died(tmp_path: Path) -> None:
    every = job(3)
    for recorder in every:
        recorder.call("0", "all_reduce", "started")
    finding = only(answer(tmp_path, every[:2]))
    assert finding.ranks == ("rank 2",)
    assert "There is no dump of rank 2" in finding.claim
    assert "log" in finding.fix


def test_all_came_and_it_does_not_complete(tmp_path: Path) -> None:
    every = job(3)
    for recorder in every:
        recorder.call("0", "all_reduce", "started")
    finding = only(answer(tmp_path, every))
    assert "all ranks called all_reduce 1" in finding.title
    assert "network" in finding.fix


def test_a_group_whose_ranks_are_not_recorded(tmp_path: Path) -> None:
    """As in dumps of Gloo: a rank that has called nothing in it may not belong to it."""
    both: dict[str, tuple[str, tuple[int, ...]]] = {"0": ("default_pg", ()), "1": ("tp", ())}
    every = [Recorder(0, both), *(Recorder(rank, {"0": both["0"]}) for rank in (1, 2))]
    for recorder in every:
        recorder.call("0", "all_reduce")
    every[0].call("1", "all_reduce", "started")
    finding = only(answer(tmp_path, every))
    assert finding.title == "The job hangs: only rank 0 called all_reduce 1 of group 1 (tp)"
    assert "is not recorded, and ranks 1 and 2 have called nothing in it" in finding.claim
    assert "last call of rank 2 is all_reduce 1 of group 0" in finding.claim
    assert not finding.ranks


def test_all_ranks_are_in_the_default_group(tmp_path: Path) -> None:
    every = [Recorder(rank, {"0": ("default_pg", ())}) for rank in range(3)]
    every[0].call("0", "all_reduce", "started")
    assert only(answer(tmp_path, every)).ranks == ("rank 1", "rank 2")


def test_less_than_ten_seconds_are_no_hang(tmp_path: Path) -> None:
    every = job(2)
    every[0].call("0", "all_reduce", "started")
    every[1].call("0", "all_reduce")
    every[1].entries.clear()
    finding = only(answer(tmp_path, every, after_s=3))
    assert finding.severity == "low"
    assert "The job hangs" not in finding.title
    every[0].entries[-1]["retired"] = True  # given up
    assert only(answer(tmp_path, every, after_s=3)).severity == "high"


def test_how_long_ranks_wait_is_said_with_what_it_is_from(tmp_path: Path) -> None:
    every = job(2, {"0": ("default_pg", (0, 1)), "own": ("", (1,))})
    every[0].call("0", "all_reduce", "started")
    assert (
        ", for 3.00 s by the dates of the files." in only(answer(tmp_path, every, after_s=3)).claim
    )
    every[1].at_ns += 42 * S  # rank 1 has gone on without it
    every[1].call("own", "all_reduce")
    finding = only(answer(tmp_path, every, after_s=3))
    told = ", for at least 42.0 s by the times of other calls, 3.00 s by the dates of the files."
    assert finding.severity == "high"
    assert told in finding.claim
    # Dates before the calls, as of unpacked archives, say nothing.
    finding = only(answer(tmp_path, every, after_s=-3600))
    assert ", for at least 42.0 s by the times of other calls. " in finding.claim
    every[1].entries[-1]["time_discovered_completed_ns"] = every[1].at_ns + 8 * S
    assert "at least 50.0 s by" in only(answer(tmp_path, every)).claim


def test_of_two_dumps_of_a_rank_that_with_later_calls_is_used(tmp_path: Path) -> None:
    (own,) = job(1)
    own.call("0", "all_reduce", "started")
    (tmp_path / "copied").mkdir()
    early = own.write(tmp_path / "copied", after_s=3600)
    own.entries[-1]["state"] = "completed"
    own.call("0", "broadcast", "started")
    late = own.write(tmp_path, after_s=1)
    found = api.fleet([early, late])
    assert [item.path for item in found.left_out] == [str(early)]


def test_calls_that_were_overwritten_are_not_missing(tmp_path: Path) -> None:
    every = job(2, {"0": ("default_pg", (0, 1)), "dp": ("", (0, 1))})
    every[0].call("dp", "all_reduce", "started")
    every[1].call("dp", "all_reduce", "started")
    for _ in range(5):
        every[1].call("0", "all_reduce")
    del every[1].entries[:3]
    finding = only(answer(tmp_path, every))
    assert finding.ranks == ()
    assert any("lack the first calls" in note for note in answer(tmp_path, every).notes)


def test_a_healthy_job(tmp_path: Path) -> None:
    every = job(3)
    for recorder in every:
        recorder.call("0", "broadcast")
        recorder.call("0", "scatter", sizes=((3,),) if recorder.rank == 0 else (), outputs=((1,),))
        recorder.call("0", "gather", sizes=((1,),), outputs=((3,),) if recorder.rank == 0 else ())
        ours = recorder.rank + 1
        recorder.call("0", "all_to_all", sizes=((ours,),), outputs=((2,),))
        same = "_all_gather_base" if recorder.rank else "all_gather"
        recorder.call("0", same, sizes=((2,),), outputs=((6,),) if recorder.rank else ((2,),) * 3)
        recorder.coalesced("0", ("all_reduce", "all_reduce"), "completed", is_p2p=False)
        right, left = (recorder.rank + 1) % 3, (recorder.rank - 1) % 3
        names = (f"send {recorder.rank}->{right}", f"recv {recorder.rank}<-{left}")
        recorder.coalesced("0", names, "completed", is_p2p=True)
    found = answer(tmp_path, every)
    assert found.findings == ()
    assert "no rank is missing in a call, and no calls differ" in found.verdict


# --- Calls that differ ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"name": "barrier", "sizes": ()}, "rank 1 called barrier, ranks 0 and 2 all_reduce"),
        ({"sizes": ((9,),)}, "rank 1 called all_reduce with [9] Float, ranks 0 and 2 all_reduce"),
        ({"dtype": "BFloat16"}, "rank 1 called all_reduce with [8] BFloat16"),
    ],
)
def test_a_call_that_differs(tmp_path: Path, what: dict[str, Any], said: str) -> None:
    every = job(3)
    for recorder in every:
        recorder.call("0", "broadcast")
        usual = {"name": "all_reduce", "sizes": ((8,),), "state": "started"}
        recorder.call("0", **(usual | (what if recorder.rank == 1 else {})))
    finding = only(answer(tmp_path, every))
    assert (finding.rule, finding.ranks) == ("collective-mismatch", ("rank 1",))
    assert said in finding.title
    assert "Call 2 of group 0" in finding.title


def test_two_ranks_that_differ_are_both_named(tmp_path: Path) -> None:
    every = job(2)
    every[0].call("0", "all_reduce", "started")
    every[1].call("0", "broadcast", "started")
    assert only(answer(tmp_path, every)).ranks == ("rank 0", "rank 1")


def test_equal_numbers_of_elements_are_no_mismatch(tmp_path: Path) -> None:
    every = job(2)
    every[0].call("0", "all_reduce", sizes=((4, 4),))
    every[1].call("0", "all_reduce", sizes=((16,),))
    assert answer(tmp_path, every).findings == ()


def test_an_all_to_all_of_which_more_is_sent_than_received(tmp_path: Path) -> None:
    every = job(2)
    every[0].call("0", "all_to_all", "started", sizes=((5,),), outputs=((4,),))
    every[1].call("0", "all_to_all", "started", sizes=((4,),), outputs=((4,),))
    finding = only(answer(tmp_path, every))
    assert "send and receive different amounts in call 1" in finding.title


def test_a_coalesced_call_that_lacks_an_operation(tmp_path: Path) -> None:
    every = job(2)
    every[0].coalesced("0", ("all_reduce", "broadcast"), "started", is_p2p=False)
    every[1].coalesced("0", ("all_reduce",), "started", is_p2p=False)
    assert "all_reduce+broadcast" in only(answer(tmp_path, every)).title


# --- Sends ---------------------------------------------------------------------------------------


def test_a_receive_that_nobody_sends(tmp_path: Path) -> None:
    every = job(4, {"pp": ("pp", (1, 3)), "0": ("default_pg", (0, 1, 2, 3))})
    every[1].send("pp", "send 0->1")
    every[3].send("pp", "recv 1<-0")
    every[3].send("pp", "recv 1<-0", "started")
    finding = only(answer(tmp_path, every))
    assert finding.ranks == ("rank 1",)
    assert "rank 1 did not join recv 1<-0 of group pp (pp) of rank 3" in finding.title


def test_a_coalesced_exchange_of_which_one_side_is_missing(tmp_path: Path) -> None:
    every = job(2)
    every[0].coalesced("0", ("send 0->1", "recv 0<-1"), "started", is_p2p=True)
    every[1].coalesced("0", ("recv 1<-0",), "started", is_p2p=True)
    finding = only(answer(tmp_path, every))
    assert finding.ranks == ("rank 1",)
    assert "recv 0<-1" in finding.title


# --- Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_3", 3),
        ("rank12.pickle", 12),
        ("comm_lib_trace_7", 7),
        ("trace4.json", 4),
        ("trace", -1),
    ],
)
def test_the_rank_is_in_the_name(name: str, rank: int) -> None:
    assert rank_of_name(Path(name)) == rank


class Hostile:
    """What runs a command when it is unpickled the usual way."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch hacked",))


def damaged(every: list[Recorder]) -> dict[str, bytes]:
    good = every[0].dump()
    whole = pickle.dumps(good, protocol=2)

    def changed(**values: Any) -> bytes:
        entries = [{**good["entries"][0], **values}]
        return pickle.dumps({**good, "entries": entries}, protocol=2)

    return {
        "rank10": whole[: len(whole) // 2],
        "rank11": pickle.dumps({"version": "2.10", "entries": Hostile()}, protocol=2),
        "rank12": pickle.dumps({"version": "9.0", "entries": []}, protocol=2),
        "rank13": pickle.dumps({"version": "2.10", "entries": 5}, protocol=2),
        "rank14": pickle.dumps({"version": "2.10", "entries": [5]}, protocol=2),
        "rank15": changed(profiling_name=7),
        "rank16": changed(state="asleep"),
        "rank17": changed(input_sizes=[[-1]]),
        "rank18": changed(collective_seq_id=-5),
        "rank19": changed(process_group=None),
        "rank20": changed(frames=3),
        "rank21": changed(time_created_ns="soon"),
        "rank22": pickle.dumps({**good, "pg_config": {"0": {"ranks": "[0, x]"}}}, protocol=2),
        "rank23.json": b'{"entries": [' + b"[" * 100_000,
        "rank24.json": b'{"entries": [], "version": "2.10", "pg_config": [1]}',
        "version": whole,
    }


def test_damaged_and_hostile_dumps_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    every = job(3)
    for recorder in every:
        recorder.call("0", "all_reduce", "completed" if recorder.rank else "started")
    files = damaged(every)
    for name, content in files.items():
        Path(name).write_bytes(content)
        assert is_dump(Path(name)), name
    every[1].entries.clear()
    good = [recorder.write(tmp_path) for recorder in every]
    found = api.fleet([*good, *files])
    assert {Path(item.path).name for item in found.left_out} == {*files}
    assert all(item.reason and "\n" not in item.reason for item in found.left_out)
    assert not Path("hacked").exists()
    assert only(found).ranks == ("rank 1",)
    assert found.verdict.endswith(f"{len(files)} files left out.")
    with pytest.raises(InputError, match="none of 1 recording could be used"):
        api.fleet(["rank11"])


def test_shared_lists_do_not_take_forever(tmp_path: Path) -> None:
    """A small file that repeats long lists of frames and sizes in each of 20,000 calls."""
    (recorder,) = job(1)
    recorder.call("0", "all_reduce")
    entry = recorder.entries[0]
    entry["frames"] = entry["frames"] * 5_000
    entry["input_sizes"] = entry["output_sizes"] = [[1]] * 10_000
    recorder.entries = [entry] * 20_000
    dump = read_dump(recorder.write(tmp_path))
    assert len(dump.operations) == 1
    assert api.fleet(dump.path).dumps[0].calls == 1


# --- The command ---------------------------------------------------------------------------------


def stuck(folder: Path) -> list[Path]:
    every = job(4)
    for recorder in every:
        recorder.call("0", "all_reduce")
        if recorder.rank != 3:
            recorder.call("0", "broadcast", "started", line=8)
    return [recorder.write(folder) for recorder in every]


def test_one_screen_and_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stuck(tmp_path)
    status = main(["fleet", "analyze", str(tmp_path), "--fail-on", "high"])
    out, err = capsys.readouterr()
    assert (status, err) == (3, "")
    text = " ".join(out.split())
    assert "Where each rank waits, or its last call" in text
    assert "0-2 broadcast 2 0 default_pg started train.py:8 in train_step" in text
    assert "3 all_reduce 1 0 default_pg completed train.py:10 in train_step" in text
    assert "Time of all ranks" not in text


def test_json_keeps_its_contract(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck(tmp_path)
    assert main(["fleet", "analyze", str(tmp_path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    schema = json.loads((repository / "docs" / "fleet.schema.json").read_text(encoding="utf-8"))
    assert violations(found, schema) == []
    assert [dump["rank"] for dump in found["dumps"]] == [0, 1, 2, 3]
    first, last = found["dumps"][0], found["dumps"][3]
    assert first["waits_in"]["operation"] == "broadcast"
    assert first["waits_in"]["tensors"] == "[16, 4] Float"
    assert first["waits_in"]["stack"][-1] == "/home/u/train.py:8 in train_step"
    assert last["waits_in"] is None
    assert last["last_call"]["utc_ns"] == BEGIN_NS + S // 100


def test_a_page_needs_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stuck(tmp_path)
    for option, name in (("-o", "page.html"), ("--parquet", "rows.parquet")):
        target = tmp_path / name
        assert main(["fleet", "analyze", *map(str, stuck(tmp_path)), option, str(target)]) == 1
        assert "flight recorders have no steps" in capsys.readouterr().err
        assert not target.exists()


def test_recordings_beside_dumps_say_what_the_missing_rank_does(tmp_path: Path) -> None:
    ms = 1_000_000
    planned = [[Meeting("dp", (0, 1, 2, 3), (ms, ms, ms, ms))] for _ in range(8)]
    ranks = [summary(rank, one) for rank, one in enumerate(simulate(4, planned))]
    object.__setattr__(ranks[3], "doing", ("step_8", "load_batch"))
    found = answer_of("job", ranks, [read_dump(path) for path in stuck(tmp_path)])
    assert found.findings[0].rule == "hang"
    assert "rank 3 is in `step_8` > `load_batch`" in found.findings[0].claim
    assert found.verdict.startswith("The job hangs: rank 3 did not call broadcast 2")
    assert "4 ranks (DP 4), 8 steps" in found.verdict
    assert len(found.ranks) == len(found.dumps) == 4
