"""``warpline profile`` as a command: its help, and what it says and writes after the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.launching import SOURCE, environment, names, needs_agent, profile, python

from warpline.capture.flags import capabilities
from warpline.capture.flags.declarations import FLAGS

RANGES = """\
import nvtx
for i in range(3):
    with nvtx.annotate("step"):
        with nvtx.annotate("inner"):
            pass
print("the program's own")
"""


@pytest.fixture
def program(tmp_path) -> list[str]:
    needs_agent()
    return python(tmp_path, RANGES)


def test_help_shows_the_flags_and_the_patterns(run):
    done = run("profile", "-h")
    assert (done.status, done.err) == (0, "")
    for flag in FLAGS:
        assert flag.is_hidden is (flag.names[-1] not in done.out)
    assert "%q{NAME}" in done.out
    assert done.out.startswith("usage: warpline profile [OPTIONS] [--] PROGRAM [ARGS...]\n")


def test_help_behind_the_program_is_the_programs(tmp_path, program):
    found = profile(tmp_path, "-q", sys.executable, "--help")
    assert found.out.startswith("usage: ")
    assert "warpline" not in found.out


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ([], ["error: missing PROGRAM argument", "hint: run warpline profile -- python train.py"]),
        (
            ["--trase=cuda", "ls"],
            ["error: unknown flag '--trase' of warpline profile", "hint: did you mean --trace?"],
        ),
    ],
)
def test_mistakes_are_told_in_two_lines(run, words, lines):
    done = run("profile", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == lines


def test_the_summary_is_one_screen_beside_the_programs_output(tmp_path, program):
    found = profile(tmp_path, *program)
    assert found.out == "the program's own\n"
    lines = found.err.splitlines()
    assert len(lines) < 24
    assert lines[1] == "report1.warpline"
    assert any(line.startswith("step ") and " 3 " in line for line in lines)
    assert "next: warpline stats report1.warpline" in lines
    assert not any("skipped" in line or "--trace=cuda" in line for line in lines)


def test_no_summary_leaves_the_name(tmp_path, program):
    found = profile(tmp_path, "--no-summary", *program)
    assert found.err == "note: wrote report1.warpline\n"


@pytest.mark.parametrize("more", [[], ["-s", "process-tree", "--python-sampling=true"]])
def test_recording_needs_the_standard_library_only(tmp_path, program, more):
    for name in ("numpy", "polars", "rich"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    path = f"{SOURCE}:{tmp_path}"  # before all installed packages
    found = profile(tmp_path, "--no-summary", *more, "-t", "cuda,nvtx", *program, PYTHONPATH=path)
    assert (found.status, found.out) == (0, "the program's own\n")
    assert names(tmp_path / "report1.warpline") == ["step", "inner"] * 3


def test_quiet_says_nothing(tmp_path, program):
    assert profile(tmp_path, "-q", "-s", "cpu", *program).err == ""


def test_what_is_not_collected_is_told_before_the_program_runs(tmp_path, program):
    words = ["-t", "cuda,nvtx,vulkan", "-s", "cpu", "--mpi-impl=openmpi", "--no-summary"]
    found = profile(tmp_path, *words, *program)
    assert found.status == 0
    assert found.err.splitlines()[:3] == [
        "warning: -s=cpu is not supported; using process-tree (other processes are not sampled)",
        "warning: --mpi-impl is ignored (-t mpi records any implementation)",
        f"warning: -t vulkan is not recorded ({capabilities.WHY_NOT})",
    ]
    assert names(tmp_path / "report1.warpline") == ["step", "inner"] * 3


def test_stats_are_data(tmp_path, program):
    found = profile(tmp_path, "--stats=true", "--no-summary", "-q", *program)
    assert found.out.startswith("the program's own\n")
    assert "NVTX range summary (nvtx_sum)" in found.out
    assert "cuda_gpu_kern_sum" not in found.out


def test_exports_lie_beside_the_recording(tmp_path, program):
    found = profile(tmp_path, "-o", "run", "--export=sqlite,json,perfetto", *program)
    assert found.status == 0
    written = ["run.json", "run.perfetto.json", "run.sqlite", "run.warpline"]
    assert sorted(path.name for path in tmp_path.glob("run*")) == written
    assert names(tmp_path / "run.sqlite") == ["step", "inner"] * 3
    assert "note: wrote run.sqlite" in found.err


@pytest.mark.parametrize("kind", ["sqlite", "json", "perfetto", "parquet"])
def test_an_existing_export_is_refused_before_the_program_runs(tmp_path, kind):
    ending = {"perfetto": "perfetto.json"}.get(kind, kind)
    taken = tmp_path / f"run.{ending}"
    taken.touch()
    found = profile(tmp_path, "-o", "run", f"--export={kind}", "touch", "has-run")
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"error: --export={kind}: {taken} ")
    assert "\nhint: use " in found.err
    assert [path.name for path in tmp_path.iterdir()] == [taken.name]


def test_exports_are_overwritten_or_numbered_on_request(tmp_path, program):
    for name in ("run.sqlite", "report1.sqlite"):
        (tmp_path / name).write_text("old")
    assert profile(tmp_path, "-f", "-o", "run", "--export=sqlite", *program).status == 0
    assert names(tmp_path / "run.sqlite") == ["step", "inner"] * 3
    assert profile(tmp_path, "--export=sqlite", *program).status == 0
    assert (tmp_path / "report1.sqlite").read_text() == "old"
    assert (tmp_path / "report2.sqlite").exists()


def test_an_export_that_fails_keeps_the_status_of_the_program(tmp_path, program):
    words = ["sh", "-c", 'touch run.sqlite; "$@"', "x", *program]
    found = profile(tmp_path, "--no-summary", "-o", "run", "--export=sqlite", *words)
    assert found.status == 0
    assert "run.sqlite already exists" in found.err
    assert "hint: run warpline export --type sqlite -o FILE run.warpline" in found.err
    assert (tmp_path / "run.warpline").exists()


def test_tables_that_cannot_be_written_keep_the_status_of_the_program(tmp_path, program):
    command = [sys.executable, "-m", "warpline", "profile", "--no-summary", "--stats", "-w0"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*command, "-o", "run", *program],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert done.returncode == 0
    assert "error: cannot write to standard output: No space left on device" in done.stderr
    assert "hint: run warpline stats run.warpline" in done.stderr
    assert "note: wrote run.warpline" in done.stderr


def test_the_exit_status_survives_all_of_it(tmp_path, program):
    words = ["--stats=true", "--export=sqlite", "sh", "-c", '"$@"; exit 9', "x", *program]
    assert profile(tmp_path, *words).status == 9


def test_numpy_is_all_that_is_needed(tmp_path, program):
    """Nothing but numpy is imported by profile, finishing and the summary."""
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('polars', 'shtab', 'pandas', 'pyarrow'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
    )
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(code)
    path = f"{tmp_path}/site:{SOURCE}"
    words = [sys.executable, "-m", "warpline"]
    env = environment(PYTHONPATH=path)
    checked = subprocess.run(
        [sys.executable, "-c", "import polars"], env=env, capture_output=True, check=False
    )
    assert checked.returncode != 0
    done = subprocess.run(
        [*words, "profile", "--stats=true", "--export=sqlite,json", *program],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, "error" in done.stderr) == (0, False)
    assert "nvtx_sum" in done.stdout
    assert "next: warpline stats" in done.stderr
    summary = subprocess.run(
        [*words, "report1.warpline"], cwd=tmp_path, env=env, capture_output=True, check=True
    )
    assert b"step" in summary.stdout


def test_modules_in_the_folder_are_not_taken_for_ours(tmp_path, program):
    for name in ("json", "struct", "typing", "numpy", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(77)")
    words = [sys.executable, "-P", "-m", "warpline", "profile", "-o", "run", "true"]
    env = environment()
    del env["PYTHONSAFEPATH"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path / "run.warpline").exists()


def test_sets_of_metrics_are_listed(tmp_path):
    found = profile(tmp_path, "--gpu-metrics-set=help")
    assert (found.status, found.err) == (0, "")
    assert "general (default): " in found.out
    assert "  nvlrx__bytes.sum\n" in found.out


def test_gpus_are_listed(tmp_path):
    found = profile(tmp_path, "--gpu-metrics-device=help", LD_LIBRARY_PATH=str(tmp_path))
    assert (found.status, found.err) == (0, "")
    assert found.out.endswith("all, cuda-visible and none can be chosen, too.\n")
