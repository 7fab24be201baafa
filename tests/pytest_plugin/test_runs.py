"""Runs of pytest with the plug-in, on programs with NVTX ranges that are recorded for real."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support import recording

import warpline
from warpline import api
from warpline import pytest_plugin as plugin
from warpline.comparison import baselines

pytest_plugins = ["pytester"]

FIXED = Path(warpline.__file__).parent / "data" / "pageable_h2d.fixed.sqlite"
BAD = Path(warpline.__file__).parent / "data" / "pageable_h2d.bad.sqlite"
TESTS = f"""
import sys
import pytest
import warpline

BAD = {str(BAD)!r}
marker = pytest.mark.warpline


def steps():
    for _ in range(9):
        with warpline.annotate("step"):
            sum(range(1000))


@marker(step_ms="<= 10000")
def test_within():
    steps()


@marker(step_ms="<= 0.0001", idle="<= 10%", no_findings="high")
def test_slow():
    steps()


@marker(step_ms="<= 10000")
def test_no_step():
    with warpline.annotate("other"):
        pass


@marker(step_ms="<= 10000")
def test_other_failure(warpline_profile):
    with warpline_profile() as run:
        steps()
    assert 0 < run.step_ms < 10000
    assert run.trace["range"].height == 8


@marker(step_ms="<= 1", memory_peak="<= 8 GiB", idle="<= 10 %", no_findings="high")
def test_recorded(warpline_profile):
    warpline_profile.open(BAD)


@marker(step_ms="<= 1")
def test_nothing_recorded(warpline_profile):
    pass


@marker(baseline="none-yet", undecided="pass")
def test_no_baseline(warpline_profile):
    warpline_profile.open(BAD)


@marker(stepms="<= 1")
def test_typo():
    pass


def test_in_a_test(warpline_profile):
    run = warpline_profile.open(BAD)
    run.check(memory_peak="<= 8 GiB")
    run.check(no_findings="pageable-copy")


def test_plain():
    pass
"""


COMMANDS = """
import sys
import pytest

PROGRAM = '''
import warpline
for _ in range(9):
    with warpline.annotate("step"): pass
'''
marker = pytest.mark.warpline


@marker(step_ms="<= 0.0001")
def test_command(warpline_profile):
    warpline_profile.run([sys.executable, "-c", PROGRAM], runs=2)


def test_command_fails(warpline_profile):
    warpline_profile.run([sys.executable, "-c", "print('hello'); raise SystemExit(3)"])
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "warpline.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *plugins, f"--basetemp={folder / 'tmp'}", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=120,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recording.skip_unless_possible()
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_it.py").write_text(TESTS)
    return folder


@pytest.fixture(scope="module")
def output(project: Path) -> str:
    """What a run of all the tests prints, without pytest-xdist."""
    return run_pytest(project, "-p", "no:xdist", "test_it.py").stdout


def shown(output: str, name: str) -> str:
    """Return what a run shows of a test that failed."""
    found = re.search(
        rf"^_+ (?:ERROR at setup of )?{name} _+\n(.*?)^[_=]+ ", output, re.MULTILINE | re.DOTALL
    )
    assert found, output
    return found[1]


def test_only_what_keeps_its_limits_passes(output):
    passed = re.findall(r"^PASSED test_it.py::(\w+)", output, re.MULTILINE)
    assert sorted(passed) == ["test_plain", "test_within"]
    assert "7 failed, 2 passed, 1 error" in output


def test_a_failure_has_each_limit_with_its_value(output):
    lines = shown(output, "test_slow").splitlines()
    assert re.fullmatch(
        r"warpline: step_ms: \S+ [num]s, limit <= 0.0001 ms \(and 2 other limits\)", lines[0]
    )
    assert re.match(r"  FAILED +step_ms +.* \(mean of \d steps, step on the CPU, ", lines[1])
    assert lines[2].split(None, 3) == [
        *("CANNOT", "CHECK", "idle"),
        "there is no GPU work in the recording",
    ]
    assert lines[3].split()[:3] == ["CANNOT", "CHECK", "no_findings"]


def test_the_recording_of_a_failure_is_kept_and_named(output, project):
    text = shown(output, "test_slow")
    found = re.search(r"^recording kept: (.*)$", text, re.MULTILINE)
    assert found
    assert warpline.open(found[1])["range"].height == 9
    assert f"what to change: warpline analyze {found[1]}" in text
    kept = {path.name for path in (project / "tmp").rglob("*.warpline")}
    assert "test_it.py-test_slow.warpline" in kept
    assert "test_it.py-test_within.warpline" not in kept
    assert BAD.exists()


def test_another_failure_is_shown_as_it_is_and_keeps_the_recording(output):
    text = shown(output, "test_other_failure")
    assert "assert 9 == 8" in text
    assert "recording kept: " in text
    assert "limit" not in text.partition("AssertionError")[2]


def test_without_a_step_nothing_passes(output):
    text = shown(output, "test_no_step")
    assert text.startswith("warpline: cannot check step_ms: there is no step in the recording")


@pytest.mark.slow
def test_commands(project):
    (project / "test_commands.py").write_text(COMMANDS)
    output = run_pytest(project, "-p", "no:xdist", "test_commands.py").stdout
    text = shown(output, "test_command")
    assert "mean of 2 runs, step on the CPU" in text
    assert len(re.findall("recording kept", text)) == 2
    text = shown(output, "test_command_fails")
    lines = [line for line in text.splitlines() if line[:1] in "E>" and line]
    assert lines[0].startswith(">       warpline_profile.run([sys.executable")
    assert lines[1].startswith("E ")
    assert lines[1].endswith(" failed with exit status 3")
    assert lines[2] == "E       Hint: run the command alone until it succeeds"
    assert "recorder.py" not in text
    assert "hello" in text.partition("Captured stdout call")[2]


def test_recordings_that_exist_are_checked_against_the_numbers_of_analyze(output):
    lines = [" ".join(line.split()) for line in shown(output, "test_recorded").splitlines()]
    # 17.4 ms and the finding are in docs/gate.md, from the same recording.
    assert lines[0] == "warpline: step_ms: 17.4 ms, limit <= 1 ms (and 1 other limit)"
    assert lines[2] == "ok idle 1.7%, limit <= 10% (pageable-copy 1.4%, dependency 0.2%)"
    assert lines[3] == "ok memory_peak 1.22 GiB, limit <= 8 GiB"
    assert lines[4] == "FAILED no_findings pageable-copy (high); limit: none that is high"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_nothing_recorded", "cannot check limits: the test recorded nothing"),
        ("test_no_baseline", "cannot check baseline none-yet: there is none in"),
        ("test_typo", "warpline has no limit 'stepms'; did you mean step_ms?"),
        ("test_in_a_test", "no_findings: pageable-copy (high)"),
    ],
)
def test_each_other_failure_is_one_line(output, name, said):
    text = shown(output, name)
    assert text.startswith(f"warpline: {said}")
    assert "Error" not in text


BASELINE_TESTS = """
import pathlib
import pytest

@pytest.mark.warpline({more}baseline="{name}", fail_on="step:3%,finding:high")
@pytest.mark.parametrize("number", [{numbers}])
def test_step(warpline_profile, number):
    warpline_profile.open({recording!r})
"""


def test_a_baseline_is_that_of_gate(pytester):
    words = ("-p", "warpline.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist")

    def run(recording: Path, *more: str, name: str = "main", numbers: str = "1", limit: str = ""):
        given = {"name": name, "numbers": numbers, "more": limit}
        text = BASELINE_TESTS.format(**given, recording=str(recording))
        pytester.makepyfile(test_it=text)
        return pytester.runpytest_inprocess(*words, *more)

    run(FIXED, "--warpline-save").assert_outcomes(passed=1)
    saved = baselines.load(pytester.path / ".warpline-baselines", "main")
    assert saved == baselines.loads(baselines.dumps(api.summarize(FIXED)).encode())
    found = run(BAD)
    found.assert_outcomes(failed=1)
    # The numbers of docs/gate.md.
    found.stdout.fnmatch_lines(
        [
            "warpline: baseline main: step +535.9% (+439.0% to +650.1%), limit 3%*",
            "*FAILED  baseline main  new finding: pageable-copy",
        ]
    )
    found = run(FIXED)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*CANNOT DECIDE  baseline main  step +0.0% *"])
    found = run(FIXED, "--warpline-save", numbers="1, 2")
    found.assert_outcomes(errors=2)
    found.stdout.fnmatch_lines(["warpline: 2 tests would save the baseline main; give each*"])
    # What misses its own limit is no baseline.
    run(BAD, "--warpline-save", name="bad", limit="step_ms=1, ").assert_outcomes(failed=1)
    run(FIXED, "--warpline-save", name="main-{test}", numbers="1, 2").assert_outcomes(passed=2)
    assert baselines.names(pytester.path / ".warpline-baselines") == [
        *("main", "main-test_step-1", "main-test_step-2")
    ]


@pytest.mark.slow
def test_workers_record_beside_each_other(project):
    found = run_pytest(
        project, "-n", "2", "-q", "--warpline-keep=kept", "-k", "within or slow", "test_it.py"
    )
    assert "1 failed, 1 passed" in found.stdout, found.stdout
    assert "note: 2 workers of pytest-xdist share CPU and GPU" in found.stdout
    kept = project / "kept"
    assert f"recording kept: {kept / 'test_it.py-test_slow.warpline'}" in found.stdout
    for name in ("slow", "within"):  # of those that pass, too
        recording = kept / f"test_it.py-test_{name}.warpline"
        assert warpline.open(recording)["range"].height == 9


def test_a_run_without_it_loads_nothing_of_it(pytester):
    pytester.makepyfile(
        test_it="""
import sys

def test_plain():
    ours = {name for name in sys.modules if name.startswith("warpline")}
    assert ours == {"warpline", "warpline.pytest_plugin"}
    assert not {"numpy", "polars"} & set(sys.modules)
"""
    )
    found = pytester.runpytest_subprocess("-p", "warpline.pytest_plugin", "-p", "no:xdist")
    found.assert_outcomes(passed=1)


def test_the_distribution_that_loads_it_names_it(repository):
    path = repository / "packaging" / "pytest-warpline" / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"warpline": plugin.__name__}
    assert project["version"] == warpline.__version__
