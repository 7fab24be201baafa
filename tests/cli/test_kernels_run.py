"""``warpline kernels`` with a program, on a machine with a fake GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.launching import Ended, environment, needs_agent

from warpline.capture.flags.counter_flags import FLAGS

# Runs the command line with a GPU that the test describes; what follows is the real thing.
CODE = """\
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from capture.test_prepare import Host, gpu
import capture.test_prepare as fakes
from warpline.capture.counting import prepare
from warpline.capture.machine.gpus import Gpus
from warpline.capture.machine.obstacles import obstacle
from warpline.cli import main
prepare.HostProcess = Host
prepare.find_gpus = lambda *_: Gpus((gpu(problem=obstacle({status})),), fakes.CUPTI)
sys.exit(main(sys.argv[1:]))
"""
TESTS = str(Path(__file__).parents[1])
SHOW_CONFIG = 'cat "$WARPLINE_SESSION/agent.conf"; exit 7'


def kernels(folder: Path, *words: str, status: int = 0, **more: str) -> Ended:
    """Run ``warpline kernels`` in a directory; counters fail with a status of CUPTI."""
    needs_agent()
    (folder / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(tests=TESTS, status=status), "kernels", *words],
        cwd=folder,
        env=environment(TMPDIR=str(folder / "tmp"), **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def pairs(text: str) -> dict[str, str]:
    """Return the last value of each key of agent.conf."""
    return {
        key: unquote(value) for line in text.splitlines() for key, _, value in [line.partition("=")]
    }


def test_help_shows_the_flags_in_groups(run):
    done = run("kernels", "--help")
    assert (done.status, done.err) == (0, "")
    for flag in FLAGS:
        assert flag.is_hidden is (flag.names[-1] not in done.out)
    assert "what to count:" in done.out
    assert "%q{NAME}" in done.out
    assert run("kernels", "-k", "x", "-h").out == done.out


def test_the_program_runs_under_a_counting_agent(tmp_path):
    script = f"echo devices=$CUDA_VISIBLE_DEVICES; {SHOW_CONFIG}"
    words = ("--metrics", "sm__inst_executed.sum", "--import-source=yes", "--verbose", "--verbose")
    found = kernels(tmp_path, *words, "sh", "-c", script, CUDA_VISIBLE_DEVICES="5")
    assert found.status == 7  # the program's
    said = pairs(found.out)
    assert said["devices"] == "5"
    assert said["counter_metric"] == "sm__inst_executed.sum inst"
    assert (said["counters"], said["cuda"]) == ("1", "1")
    assert (said["cuda_kernel"], said["nvtx"]) == ("0", "0")
    lines = found.err.splitlines()
    assert lines == [
        "warning: ignored: --import-source, --verbose (no effect in warpline kernels)",
        "warning: no kernel was counted: no process called CUDA",
        "hint: run warpline doctor to check whether CUDA can be recorded on this machine",
    ]
    assert list((tmp_path / "tmp").iterdir()) == []  # the temporary recording is removed
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_a_recording_is_kept_on_request(tmp_path):
    words = ("--nvtx", "-k", "gemm", "-o", "run_%i.ncu-rep", "--csv", "sh", "-c", SHOW_CONFIG)
    found = kernels(tmp_path, *words)
    assert found.status == 7
    assert "no kernel was counted: no process called CUDA" in found.err
    assert found.err.endswith("note: wrote run_1.warpline\n")
    assert (pairs(found.out)["nvtx"], pairs(found.out)["counter_name"]) == ("1", "gemm")
    assert (tmp_path / "run_1.warpline").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_signal_ends_both_and_quiet_says_nothing(tmp_path):
    found = kernels(tmp_path, "-q", "--verbose", "sh", "-c", "echo only me; kill -TERM $$")
    assert (found.status, found.out, found.err) == (-15, "only me\n", "")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_without_rights_a_timeline_is_recorded(tmp_path):
    found = kernels(tmp_path, "sh", "-c", SHOW_CONFIG, status=35)
    assert found.status == 7
    said = pairs(found.out)
    assert "counters" not in said
    assert (said["cuda"], said["cuda_api"], said["nvtx"]) == ("1", "calls", "1")
    lines = found.err.splitlines()
    assert lines[0].startswith("warning: no counters: this user may not read GPU counters")
    assert lines[0].endswith("recording a timeline instead")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in lines[1]
    refused = kernels(tmp_path, "--set", "full", "touch", "has-run", status=35)
    assert refused.status == 1
    assert refused.err.startswith("error: this user may not read GPU counters")
    assert not (tmp_path / "has-run").exists()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("./nothing",), 127, "./nothing: no such file"),
        (("--set", "nonsense", "true"), 2, "unknown set 'nonsense'"),
        (("--clock-control", "reset", "true"), 2, "--clock-control reset is not supported"),
        ((), 2, "missing PROGRAM or REPORT argument"),
    ],
)
def test_mistakes_start_nothing(run, words, status, message):
    done = run("kernels", *words)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"error: {message}")


def test_a_script_is_run_by_its_interpreter(run, tmp_path):
    (tmp_path / "train.py").write_text("print()")
    done = run("kernels", str(tmp_path / "train.py"))
    assert done.status == 126
    assert f"hint: run warpline kernels -- python {tmp_path}/train.py" in done.err


def test_a_machine_without_a_gpu(run, monkeypatch):
    from warpline.capture.machine import gpus

    monkeypatch.setattr(gpus, "_ask", lambda *_: {"no_driver": "libcuda.so.1"})
    done = run("kernels", "true")
    assert done.status == 1
    assert done.err.startswith("error: no NVIDIA driver was found (libcuda.so.1)\nhint: without")
    plan = run("kernels", "plan")
    assert plan.status == 2
    assert plan.err.startswith("error: missing --chip: no NVIDIA driver was found")


def test_the_summary_is_printed_for_reports_too(run, tmp_path):
    from support import ncu_captures

    report = str(ncu_captures.unpack("target", tmp_path))
    out = run("kernels", report, "--page", "summary").out
    assert "(kernel_counter_spread)" in out
    assert "naive_gemm" in out
    assert "SM clock 1.97 GHz (1.95 to 1.98 GHz)" in out
    csv = run("kernels", report, "--page", "summary", "--csv").out.splitlines()
    assert csv[0].startswith("Kernel,Grid,Block,Launches,Time (us)")
    assert len(csv) == 6
    log = tmp_path / "page.txt"
    done = run("kernels", report, "--page", "raw", "--csv", "--log-file", str(log))
    assert (done.status, done.out) == (0, "")
    assert log.read_text() == ncu_captures.printed("target", "raw.csv")
    bad = run("kernels", report, "--log-file", str(tmp_path))
    assert (bad.status, "Is a directory" in bad.err) == (1, True)
