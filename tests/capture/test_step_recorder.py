"""Callbacks of training libraries record some steps: `StepRecorder`, without the libraries."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import recording

import warpline
from warpline.torch.step_recorder import StepRecorder

Run = Callable[..., subprocess.CompletedProcess[str]]

LOOP = """
import warpline
from warpline.torch.step_recorder import StepRecorder

def steps(recorder, count, first=0):
    for number in range(first, first + count):
        recorder.begin_step(number)
        recorder.begin_step(number)        # the next batch of the same step
        warpline.mark(f"in {number}")
        recorder.end_step()
        recorder.end_step()                # changes nothing
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs Python code after `LOOP`, in an empty folder."""
    recording.skip_unless_possible()

    def run(code: str, *before: str) -> subprocess.CompletedProcess[str]:
        source = str(Path(warpline.__file__).parents[1])
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        return subprocess.run(
            [*before, sys.executable, "-c", LOOP + code],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            timeout=60,
        )

    return run


def recorded(path: Path) -> list[tuple[str, bool]]:
    table = warpline.open(path)["range"].sort("start_ns")
    return list(zip(table["name"].to_list(), table["is_truncated"].to_list(), strict=True))


def whole(*numbers: int) -> list[tuple[str, bool]]:
    return [(f"step {number}", False) for number in numbers]


def test_the_steps_after_warm_up_are_recorded(run, tmp_path):
    done = run("""
recorder = StepRecorder("fit", wait=1, warmup=2, active=3, trace="nvtx")
recorder.begin()
steps(recorder, 10)
recorder.end()
recorder.end()
assert [path.name for path in recorder.paths] == ["fit.warpline"]
""")
    assert done.stderr == "warpline: recorded 3 steps; next: warpline analyze fit.warpline\n"
    path = tmp_path / "fit.warpline"
    assert recorded(path) == whole(3, 4, 5)
    assert warpline.open(path)["mark"]["name"].to_list() == ["in 3", "in 4", "in 5"]


def test_what_ends_early_is_kept_and_its_last_step_is_cut(run, tmp_path):
    done = run("""
recorder = StepRecorder("fit%n", warmup=1, active=5, repeat=0, trace="nvtx")
recorder.begin()
steps(recorder, 3)
recorder.interrupt("validation began")
steps(recorder, 2, first=3)                # one is warm-up again
recorder.begin_step(5)
recorder.end("training ended by KeyError")
""")
    assert done.stderr.splitlines() == [
        "warpline: recorded 2 of 5 steps (validation began); next: warpline analyze fit1.warpline",
        (
            "warpline: recorded 1 of 5 steps (training ended by KeyError); next: warpline analyze"
            " fit2.warpline"
        ),
    ]
    assert recorded(tmp_path / "fit1.warpline") == whole(1, 2)
    assert recorded(tmp_path / "fit2.warpline") == [*whole(4), ("step 5", True)]


def test_a_second_loop_records_if_the_first_one_did_not(run, tmp_path):
    done = run("""
recorder = StepRecorder("fit", warmup=2, active=1, trace="nvtx")
for _ in range(3):
    recorder.begin()
    steps(recorder, 2 if not _ else 4)
    recorder.end()
""")
    assert done.stderr.splitlines() == [
        (
            "warpline: nothing was recorded: training ended after 2 steps, and the first 2 steps"
            " are skipped; lower wait and warmup"
        ),
        "warpline: recorded 1 step; next: warpline analyze fit.warpline",
    ]
    assert recorded(tmp_path / "fit.warpline") == whole(2)


def test_a_program_that_ends_in_a_step_leaves_a_recording(run, tmp_path):
    done = run("""
recorder = StepRecorder("fit", warmup=0, trace="nvtx")
recorder.begin()
steps(recorder, 1)
recorder.begin_step(1)
raise KeyError("the program's own")
""")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "warpline: recorded 1 of 12 steps (the program ended); next: warpline analyze"
        " fit.warpline\n"
    )
    assert recorded(tmp_path / "fit.warpline") == [*whole(0), ("step 1", True)]


def test_training_goes_on_where_it_cannot_be_recorded(run, tmp_path):
    (tmp_path / "fit.warpline").write_text("of the user")
    done = run("""
recorder = StepRecorder("fit", warmup=0, active=1, trace="nvtx")
recorder.begin()
steps(recorder, 5)
recorder.end()
print(recorder.paths)
""")
    assert done.stdout == "[]\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("warpline: the training is not recorded: ")
    assert "pass overwrite=True" in line
    assert (tmp_path / "fit.warpline").read_text() == "of the user"


def test_a_program_that_is_recorded_gets_the_ranges_and_no_second_recording(run, tmp_path):
    done = run(
        """
recorder = StepRecorder("fit", warmup=1, active=1)
recorder.begin()
steps(recorder, 3)
recorder.end()
assert not recorder.paths
""",
        *(sys.executable, "-m", "warpline", "profile", "-t", "nvtx", "-o", "all", "--quiet"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["all.warpline"]
    assert recorded(tmp_path / "all.warpline") == whole(0, 1, 2)


def test_optimizers_end_the_steps_of_accelerate(run, tmp_path):
    done = run("""
from types import SimpleNamespace
from warpline.torch import accelerate_profile

hooks = []
def register(hook):
    hooks.append(hook)
    return SimpleNamespace(remove=hooks.clear)

optimizer = SimpleNamespace(register_step_post_hook=register)
accelerator = SimpleNamespace(process_index=3, _optimizers=[SimpleNamespace(optimizer=optimizer)])
options = {"warmup": 1, "active": 2, "ranks": [3, 5], "trace": "nvtx"}
with accelerate_profile(accelerator, "loop", **options) as run:
    for _ in range(4):
        hooks[0](optimizer, (), {})
assert not hooks
try:
    with accelerate_profile(SimpleNamespace(process_index=0, _optimizers=[]), "x", warmup=0) as run:
        run.step()                         # of one without hooks
        raise KeyError
except KeyError:
    print([path.name for path in run.paths])
""")
    assert done.stderr.splitlines() == [
        "warpline: recorded 2 steps; next: warpline analyze loop-rank3.warpline",
        (
            "warpline: recorded 1 of 12 steps (training ended by KeyError); next: warpline analyze"
            " x.warpline"
        ),
    ]
    assert done.stdout == "['x.warpline']\n"
    assert recorded(tmp_path / "loop-rank3.warpline") == whole(1, 2)
    assert recorded(tmp_path / "x.warpline") == [*whole(0), ("step 1", True)]


@pytest.mark.parametrize(
    ("path", "options", "output"),
    [
        (None, {}, None),
        ("run.warpline", {}, "run"),
        ("run.nsys-rep", {"ranks": None}, "run-rank2"),
        (None, {"ranks": None}, "report%n-rank2"),
        ("run-%q{RANK}", {"ranks": (0, 2)}, "run-%q{RANK}"),
        ("run", {"repeat": 2}, "run-%n"),
        ("%n", {"repeat": 0, "ranks": None}, "%n-rank2"),
    ],
)
def test_recordings_of_ranks_and_cycles_have_their_own_names(path, options, output):
    assert StepRecorder(path, **options)._output_of(2) == output


def test_options_are_checked_before_training():
    with pytest.raises(warpline.UsageError, match="active=0"):
        StepRecorder(active=0)
    with pytest.raises(warpline.UsageError, match="unknown API"):
        StepRecorder(trace="cdua")


def test_a_recorder_reaches_processes_that_are_started_with_it():
    recorder = StepRecorder("x", ranks={1})
    recorder._is_open = True
    copy = pickle.loads(pickle.dumps(recorder))
    assert (copy._is_open, copy._profile, copy._output_of(1)) == (False, None, "x")


def test_the_package_imports_no_library_until_it_is_asked_for():
    code = (
        "import sys, warpline; warpline.torch; warpline.torch.accelerate_profile;"
        " print({'torch', 'lightning', 'transformers', 'accelerate', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_missing_library_is_named(monkeypatch):
    for name in ("lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(warpline.UsageError, match="Lightning is not installed"):
        _ = warpline.torch.LightningCallback
    with pytest.raises(warpline.UsageError, match="Transformers cannot be imported"):
        _ = warpline.torch.TransformersCallback
