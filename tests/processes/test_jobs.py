"""Jobs of several processes: workers, ranks, daemons, children in other environments."""

from __future__ import annotations

import sys


def test_workers_of_a_data_loader(lab):
    run = lab.profile(lab.program("jobs", "loader"))
    assert run.status == 0, run.said
    found = run.recording
    assert found.counts == lab.noted()
    assert found.totals() == {"step": 60, "load": 60}
    assert len(found.trace["process"]) == 5
    assert found.lost == 0


def test_ranks_in_one_recording_one_started_again(lab):
    run = lab.profile(lab.program("jobs", "ranks", "4"))
    assert run.status == 0, run.said
    found = run.recording
    assert found.counts == lab.noted()
    assert found.totals() == {f"step of rank {rank}": 20 for rank in range(4)}
    assert len(found.counts) == 8


def test_a_recording_per_rank(lab):
    words = lab.profiled(lab.program("jobs", "rank"), ["-o", "run.%q{RANK}", "-f", "true"])
    started = [lab.start(words, environment={"RANK": str(rank)}) for rank in range(3)]
    for process in started:
        run = lab.end(process)
        assert run.status == 0, run.said
    counted = {rank: lab.read(f"run.{rank}.warpline").totals() for rank in range(3)}
    assert counted == {rank: {f"step of rank {rank}": 10} for rank in range(3)}


def test_a_daemon_is_waited_for(lab):
    run = lab.profile(lab.program("jobs", "daemon", "0.2"))
    assert run.status == 0, run.said
    assert run.recording.counts == lab.noted()
    assert run.recording.totals() == {"parent": 3, "daemon": 7}


def test_a_daemon_is_not_waited_for(lab):
    run = lab.profile(lab.program("jobs", "daemon", "3"), flags=["--wait=primary"])
    assert run.status == 0, run.said
    assert run.recording.totals() == {"parent": 3, "daemon": 3}
    assert "was still running" in run.recording.warnings
    assert "was still running" in run.said


def test_a_child_with_an_environment_of_its_own_is_named(lab):
    run = lab.profile(lab.program("jobs", "stripped"))
    assert run.status == 0, run.said
    assert "was not recorded" in run.recording.warnings
    assert "WARPLINE_SESSION" in run.recording.warnings


def test_odd_surroundings(lab):
    run = lab.profile(lab.program("jobs", "odd_surroundings"))
    assert run.status == 0, run.said
    assert run.recording.totals() == {"here": 3, "there": 4, "small": 1}
    assert run.recording.counts == lab.noted()


def test_the_folder_of_the_launcher_is_deleted(lab):
    place = lab.folder / "place"
    place.mkdir()
    code = f"import os; os.rmdir({str(place)!r})"
    run = lab.profile([sys.executable, "-c", f"{code}; import nvtx; nvtx.mark('m')"], cwd=place)
    assert run.status == 0, run.said
    assert len(run.recording.trace["mark"]) == 1


def test_processes_of_other_names_come_and_go(lab):
    """Many short programs that call no NVTX do no harm."""
    run = lab.profile(["sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"])
    assert run.status == 0
    assert "no process called NVTX" in run.said
