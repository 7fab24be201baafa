"""``warpline profile`` with real programs: they are not affected, and all is recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.launching import Ended, end, names, needs_agent, profile, python, start

import warpline
from warpline.capture.launcher import program
from warpline.errors import TargetFailedError


@pytest.fixture(autouse=True)
def _agent():
    needs_agent()


def only(folder: Path) -> Path:
    """Return the one recording in a folder, in which no session is left."""
    assert list(folder.glob("*.raw")) == []
    (found,) = folder.glob("*.warpline")
    return found


MARKS = """\
import nvtx
with nvtx.annotate('outer'):
    nvtx.push_range('inner')
    nvtx.pop_range()
"""


def test_a_program_is_recorded(tmp_path):
    found = profile(tmp_path, *python(tmp_path, MARKS + "print('hello')"))
    assert (found.status, found.out) == (0, "hello\n")
    assert names(only(tmp_path)) == ["outer", "inner"]
    assert only(tmp_path).name == "report1.warpline"
    assert "report1.warpline\n" in found.err
    tables = warpline.open(only(tmp_path)).tables
    assert {"range", "kernel", "api_call"} <= {*tables}
    assert "memory_event" not in tables


def test_what_is_asked_for_is_in_the_recording(tmp_path):
    words = python(tmp_path, MARKS)
    more = {"CUDA_MODULE_LOADING": "LAZY", "SECRET_THING": "x", "HF_TOKEN": "x"}
    assert profile(tmp_path, "-q", *words, "--token", "abc", **more).status == 0
    meta = warpline.open(only(tmp_path)).meta
    assert (meta.command or "").endswith(" program.py --token ***")
    assert "abc" not in (meta.command or "")


def test_versions_of_what_is_loaded_are_recorded(tmp_path):
    package = tmp_path / "site-packages" / "torch"
    package.mkdir(parents=True)
    (tmp_path / "site-packages" / "torch-9.8.7.dist-info").mkdir()
    (package / "libtorch.so").write_bytes(bytes(4096))
    code = f"""{MARKS}
import mmap, os, pathlib, time
file = open("site-packages/torch/libtorch.so", "r+b")
mapped = mmap.mmap(file.fileno(), 4096)
facts = pathlib.Path(os.environ["WARPLINE_SESSION"], "session.json")
end = time.monotonic() + 60
while "PyTorch" not in facts.read_text() and time.monotonic() < end: time.sleep(0.02)
"""
    assert profile(tmp_path, "-q", *python(tmp_path, code)).status == 0
    assert warpline.open(only(tmp_path)).meta.software["PyTorch"] == "9.8.7"


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_exit_status_is_the_programs(tmp_path, status):
    found = profile(tmp_path, "-q", *python(tmp_path, f"{MARKS}import sys; sys.exit({status})"))
    assert found.status == status
    assert names(only(tmp_path)) == ["outer", "inner"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT])
def test_a_program_that_dies_of_a_signal_takes_us_with_it(tmp_path, number):
    code = f"{MARKS}nvtx.push_range('open')\nimport os; os.kill(os.getpid(), {int(number)})"
    found = profile(tmp_path, "-q", *python(tmp_path, code))
    assert found.status == -number
    assert names(only(tmp_path)) == ["outer", "inner", "open"]
    assert list(tmp_path.glob("core*")) == []


def test_a_program_that_leaves_at_once_loses_nothing(tmp_path):
    found = profile(tmp_path, "-q", *python(tmp_path, f"{MARKS}import os; os._exit(5)"))
    assert found.status == 5
    assert names(only(tmp_path)) == ["outer", "inner"]


def test_standard_streams_are_the_programs(tmp_path):
    words = [sys.executable, "-c", "import sys; print(input()); print('e', file=sys.stderr)"]
    process = subprocess.run(
        [sys.executable, "-m", "warpline", "profile", "-q", *words],
        cwd=tmp_path,
        input=b"typed\n",
        capture_output=True,
        check=False,
    )
    assert process.stdout == b"typed\n"
    assert process.stderr.startswith(b"e\n")


def test_output_can_be_thrown_away(tmp_path):
    found = profile(tmp_path, "-q", "-w", "false", "sh", "-c", "echo out; echo err >&2; exit 4")
    assert found == Ended(4, "", "")


def test_the_environment_is_the_programs(tmp_path):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    before = {"A": "1", "LD_LIBRARY_PATH": "/x", "OMP_NUM_THREADS": "3"}
    found = profile(tmp_path, "-q", "-e", "B=2,3,C=4", *python(tmp_path, code), **before)
    seen = json.loads(found.out)
    assert (seen["A"], seen["B"], seen["C"]) == ("1", "2,3", "4")
    assert (seen["LD_LIBRARY_PATH"], seen["OMP_NUM_THREADS"]) == ("/x", "3")
    new = set(seen) - set(os.environ) - {"A", "B", "C", *before}
    assert new <= {"NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "WARPLINE_SESSION",
                   "PYTHONPATH", "PYTHONSAFEPATH", "LC_CTYPE"}  # fmt: skip
    assert "WARPLINE_SESSION" in new


def test_the_environment_may_be_empty(tmp_path):
    found = profile(tmp_path, "-q", "-n", "false", "-e", "X=1", "/usr/bin/env")
    assert {line.split("=")[0] for line in found.out.splitlines()} == {
        "X",
        "WARPLINE_SESSION",
        "NVTX_INJECTION64_PATH",
        "CUDA_INJECTION64_PATH",
    }
    found = profile(tmp_path, "-q", "-t", "nvtx", "-n", "false", "/usr/bin/env")
    assert "CUDA_INJECTION64_PATH" not in found.out


def test_cuda_is_looked_at_if_it_bounds_capture_ranges_only(tmp_path):
    code = 'cat "$WARPLINE_SESSION/agent.conf"; echo "injected=$CUDA_INJECTION64_PATH"'
    found = profile(tmp_path, "-q", "-t", "nvtx", "-c", "cudaProfilerApi", "sh", "-c", code)
    said = dict(line.split("=", 1) for line in found.out.splitlines())
    assert (said["cuda"], said["cuda_api"], said["cuda_kernel"]) == ("1", "none", "0")
    assert said["injected"].endswith("libwarpline_agent.so")
    words = ["--cuda-graph-trace=node", "--cuda-memory-usage=true", "-o", "second"]
    found = profile(tmp_path, "-q", *words, "sh", "-c", code)
    said = dict(line.split("=", 1) for line in found.out.splitlines())
    assert (said["cuda_graph"], said["cuda_memory"], said["cuda_api"]) == ("node", "1", "calls")
    assert "cuda_kernel" not in said


def test_another_tool_for_cuda_is_replaced_and_told(tmp_path):
    other = {"CUDA_INJECTION64_PATH": "/opt/other/libtool.so"}
    told = "warning: replaced CUDA_INJECTION64_PATH=/opt/other/libtool.so"
    assert told in profile(tmp_path, "--no-summary", "true", **other).err
    assert told not in profile(tmp_path, "-t", "nvtx", "--no-summary", "true", **other).err


def test_signals_are_as_a_shell_leaves_them(tmp_path):
    code = (
        "import re\ntext = open('/proc/self/status').read()\n"
        "print(*re.findall(r'Sig(?:Blk|Ign):\\s*(\\w+)', text))\n"
    )
    script = tmp_path / "signals.sh"
    script.write_text("grep -E 'SigBlk|SigIgn' /proc/self/status\n")
    plain = subprocess.run(["sh", script], capture_output=True, check=True, text=True)
    assert profile(tmp_path, "-q", "sh", str(script)).out == plain.stdout
    assert code  # the program is a shell: Python ignores signals of its own accord


def test_files_that_others_opened_are_passed_on(tmp_path):
    with (tmp_path / "other").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        words = [sys.executable, "-m", "warpline", "profile", "-q", "--", "sh", "-c"]
        code = f"echo written >/proc/self/fd/{file.fileno()}"
        subprocess.run([*words, code], cwd=tmp_path, check=True, close_fds=False)
    assert (tmp_path / "other").read_bytes() == b"written\n"


def test_scripts_need_no_first_line(tmp_path):
    script = tmp_path / "plain"
    script.write_text('echo "$0" "$1"\n')
    script.chmod(0o755)
    assert profile(tmp_path, "-q", "./plain", "a b").out == "plain a b\n"


@pytest.mark.parametrize(
    ("word", "status", "message", "hint"),
    [
        ("no-such-program", 127, "no-such-program: command not found", None),
        ("./no-such-program", 127, "./no-such-program: no such file", None),
        ("folder/", 126, "folder/: is a directory", None),
        ("plain.py", 127, "plain.py: command not found", "python plain.py"),
        ("./plain.py", 126, "./plain.py: permission denied", "python ./plain.py"),
        ("./broken", 126, "broken: No such file or directory", "install its interpreter"),
    ],
)
def test_a_program_that_cannot_be_started(tmp_path, word, status, message, hint):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain.py").write_text("print()")
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    found = profile(tmp_path, word)
    assert found.status == status
    assert found.err.splitlines()[0].startswith("error: ")
    assert found.err.splitlines()[0].endswith(message)
    assert (hint or "") in found.err
    assert list(tmp_path.glob("*.raw")) == list(tmp_path.glob("*.warpline")) == []


def test_the_program_is_looked_for_in_its_own_path(tmp_path):
    script = tmp_path / "bin" / "mine"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho mine\n")
    script.chmod(0o755)
    assert program.find("mine", {"PATH": str(script.parent)}) == script
    with pytest.raises(TargetFailedError):
        program.find("mine", {"PATH": "/none"})
    assert profile(tmp_path, "-q", "-e", f"PATH={script.parent}", "mine").out == "mine\n"
    without = profile(tmp_path, "-n", "false", "mine", PATH=str(script.parent))
    hint = f"PATH is not set; use the full path: warpline profile ... -- {script}"
    assert without.err.splitlines() == ["error: mine: command not found", f"hint: {hint}"]


def test_names_are_never_overwritten_unasked(tmp_path):
    for _ in range(2):
        assert profile(tmp_path, "-q", "true").status == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report1.warpline",
        "report2.warpline",
    ]
    found = profile(tmp_path, "-o", "report1", "touch", "ran")
    assert found.status == 2
    assert "report1.warpline already exists" in found.err
    assert not (tmp_path / "ran").exists()
    assert profile(tmp_path, "-q", "-f", "-o", "report1", "touch", "ran").status == 0


def test_a_name_may_hold_the_programs_id(tmp_path):
    found = profile(tmp_path, "-q", "-o", "run-%p-%q{RANK}", "sh", "-c", "echo $$", RANK="3")
    assert only(tmp_path).name == f"run-{found.out.strip()}-3.warpline"


def test_a_variable_that_is_not_set_is_told(tmp_path):
    found = profile(tmp_path, "-o", "run%q{NO_SUCH}", "true")
    assert "warning: -o run%q{NO_SUCH}: environment variable NO_SUCH is not set" in found.err


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_is_told_before_the_start(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    found = profile(tmp_path, "-o", "closed/run", "touch", "ran")
    assert found.status == 1
    assert "is not writable" in found.err
    assert not (tmp_path / "ran").exists()


def test_a_file_system_that_cannot_be_written_is_told_before_the_start(tmp_path):
    found = profile(tmp_path, "-o", "/proc/run", "touch", "ran")
    assert found.status == 1
    assert found.err.startswith("error: ")
    assert not (tmp_path / "ran").exists()


def test_a_missing_folder_is_told_before_the_start(tmp_path):
    found = profile(tmp_path, "-o", "none/run", "touch", "ran")
    assert (found.status, (tmp_path / "ran").exists()) == (1, False)
    assert f"mkdir -p {tmp_path}/none" in found.err


def test_a_full_disk_is_told_and_the_program_goes_on(tmp_path):
    """The recording cannot be written: the session stays, and can be recovered elsewhere."""
    disk = tmp_path / "disk"
    disk.mkdir()
    code = (
        "import nvtx\n"
        "for i in range(200_000):\n    nvtx.push_range(f'n{i}')\n    nvtx.pop_range()\n"
        "print('ended')\n"
    )
    words = python(tmp_path, code)
    mounted = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=66m none {disk} && exec "$@"']
    if subprocess.run([*mounted, "x", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    shell = (
        f"cd {disk}; {sys.executable} -m warpline profile --no-summary {' '.join(words)};"
        f" echo $?; ls; {sys.executable} -m warpline stats -r nvtx_sum --rows 1 *.warpline"
    )
    from support.launching import environment

    found = subprocess.run(
        [*mounted, "x", "sh", "-c", shell],
        capture_output=True,
        check=False,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert found.stdout.startswith("ended\n0\n"), found
    assert "events were dropped because the disk was full" in found.stderr
    assert "Traceback" not in found.stderr


def test_no_column_library_is_loaded_while_the_program_runs(tmp_path):
    code = (
        "import os\n"
        "for pid in (os.getppid(), 'self'):\n"
        "    maps = open(f'/proc/{pid}/maps').read()\n"
        "    print([name for name in ('numpy', 'polars', 'pyarrow') if name in maps])\n"
    )
    assert profile(tmp_path, "-q", *python(tmp_path, code)).out == "[]\n[]\n"


def test_a_session_within_a_session_is_its_own(tmp_path):
    inner = [sys.executable, "-m", "warpline", "profile", "-q", "-o", "inner"]
    found = profile(tmp_path, "-q", "-o", "outer", *inner, *python(tmp_path, MARKS))
    assert found.status == 0
    assert names(tmp_path / "inner.warpline") == ["outer", "inner"]
    assert names(tmp_path / "outer.warpline") == []


@pytest.mark.parametrize("health", ["1", "off"])
def test_as_the_first_process_of_a_container(tmp_path, health):
    """It gets processes of its own as children, and waits for those of the program only."""
    first = ["unshare", "-rpf", "--mount-proc"]
    if subprocess.run([*first, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace can be made here")
    left = (
        "import os, time\nif os.fork() == 0:\n    time.sleep(0.2)\n    print('left', flush=True)\n"
    )
    words = [f"--gpu-health={health}", *python(tmp_path, MARKS + left)]
    found = end(start(tmp_path, words, through=first))
    assert (found.status, found.out.count("left\n")) == (0, 1)
    assert "was not recorded" not in found.err
    assert names(only(tmp_path)) == ["outer", "inner"]


def test_another_tools_injection_is_told(tmp_path):
    found = profile(tmp_path, "--no-summary", "true", NVTX_INJECTION64_PATH="/opt/libother.so")
    assert "warning: replaced NVTX_INJECTION64_PATH=/opt/libother.so" in found.err


def test_when_we_are_killed_the_program_goes_on(tmp_path):
    code = (
        f"{MARKS}import os, sys, time\nopen('pid', 'w').write(str(os.getpid()))\n"
        "time.sleep(0.5)\nnvtx.mark('late')\nopen('ended', 'w').close()\n"
    )
    process = start(tmp_path, ["-q", "-o", "run", *python(tmp_path, code)])
    wait_for(tmp_path / "pid")
    process.kill()
    process.communicate()
    wait_for(tmp_path / "ended")
    folder = tmp_path / "run.warpline.raw"
    facts = json.loads((folder / "session.json").read_text())
    assert facts["launcher_pid"] == process.pid
    assert "ended_monotonic_ns" not in facts
    assert list(folder.glob("*.wlraw"))


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.01)
    pytest.fail(f"{path} did not come")


def test_finishing_that_fails_keeps_the_session(tmp_path):
    code = f"{MARKS}import pathlib\npathlib.Path('run.warpline').mkdir()\n"
    found = profile(tmp_path, "-q", "-o", "run", *python(tmp_path, code))
    assert found.status == 1
    assert "error: " in found.err
    assert "warpline recover" in found.err
    assert (tmp_path / "run.warpline.raw").is_dir()


def test_two_at_once_are_two(tmp_path):
    words = ["-q", *python(tmp_path, MARKS)]
    running = [start(tmp_path, words) for _ in range(2)]
    assert [end(process).status for process in running] == [0, 0]
    found = sorted(path.name for path in tmp_path.glob("*.warpline"))
    assert found == ["report1.warpline", "report2.warpline"]


def test_ranks_that_share_a_name_do_not_lose_each_other(tmp_path):
    code = f"{MARKS}import os, time\nnvtx.mark('m')\ntime.sleep(0.3)\n"
    words = ["-f", "--no-summary", "-o", "run", *python(tmp_path, code)]
    ended = [end(process) for process in [start(tmp_path, words) for _ in range(2)]]
    assert [found.status for found in ended] == [0, 0]
    assert [names(path) for path in tmp_path.glob("run*.warpline")] == [["outer", "inner"]] * 2
    assert sum("-o NAME%q{RANK}" in found.err for found in ended) == 1
