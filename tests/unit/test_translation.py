"""Command lines of other profilers: what comes out is what our own parsers accept."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from warpline.capture.flags import counter_flags, parsing
from warpline.capture.flags.nvprof import METRICS
from warpline.capture.flags.shell_words import quoted, split
from warpline.cli.translate import translated
from warpline.errors import UsageError

_LINES = (Path(__file__).parents[1] / "data" / "command_lines.txt").read_text().splitlines()
NSYS = [line for line in _LINES if "nsys profile" in line]
OCCUPANCY_AND_IPC = f"{METRICS['achieved_occupancy']},{METRICS['ipc']}"
NCU = [line for line in _LINES if "nsys profile" not in line]


@pytest.mark.parametrize("line", NSYS)
def test_lines_of_nsys_become_lines_that_profile_accepts_without_a_warning(line):
    words = split(line)
    done = translated(words)
    [ours] = done.lines
    ours_words = [word.value for word in split(ours)]
    at = ours_words.index("warpline")
    assert ours_words[:at] == [word.value for word in words[:at]]
    assert ours_words[at + 1] == "profile"
    settings = parsing.parse(ours_words[at + 2 :])
    # The program and its arguments are as they were, quotes included.
    program = list(settings.command)
    assert program == [word.value for word in words[-len(program) :]]
    assert ours.endswith(line[-len(words[-1].raw) :])
    # What our parser would warn of is said; flags without effect are gone.
    assert not [text for text in settings.warnings if text.startswith("--")]
    for warning in settings.warnings:
        assert any(warning[1:] in sentence for sentence in done.differs)


def test_flags_that_are_left_out_are_named_with_the_reason():
    done = translated(
        split("nsys profile --gpuctxsw=true --nic-metrics false -t cuda,opengl -y x ./a")
    )
    assert done.lines == ["warpline profile -t cuda ./a"]
    assert done.left_out == [
        ("--gpuctxsw=true", "GPU context switches and video engines are not recorded"),
        ("--nic-metrics false", "it turns off what Warpline does not do"),
        ("-t opengl", "not recorded by Warpline"),
        ("-y x", "expected a number of seconds"),
    ]


def test_flags_that_say_the_default_are_not_needed():
    line = "nsys profile -x true --sample=none --stats=false --wait all -t cuda,nvtx -f true ./a"
    done = translated(split(line))
    assert done.lines == ["warpline profile -t cuda,nvtx -f true ./a"]
    reasons = dict(done.left_out)
    assert list(reasons) == ["-x true", "--sample=none", "--stats=false", "--wait all"]
    assert set(reasons.values()) == {"not needed: it is the default"}
    assert "nsys samples CPUs" not in " ".join(done.differs)


def test_defaults_that_differ_are_said_only_if_they_matter():
    bare = " ".join(translated(split("nsys profile ./a")).differs)
    for words in ("osrt", "-s process-tree", "--cuda-graph-trace=graph", "report1.warpline"):
        assert words in bare
    chosen = "nsys profile -t cuda -s none --cuda-graph-trace=graph -o r.nsys-rep ./a"
    assert translated(split(chosen)).differs == ["The recording is r.warpline."]


def test_what_the_shell_computes_is_kept_and_said():
    done = translated(split('nsys profile -d "$SECONDS" -o $OUT ./a "$1"'))
    assert done.lines == ['warpline profile -d "$SECONDS" -o $OUT ./a "$1"']
    assert '-d "$SECONDS" was not checked: the shell computes it.' in done.differs


@pytest.mark.parametrize("line", NCU)
def test_lines_of_ncu_become_lines_that_kernels_accepts(line):
    done = translated(split(line))
    [ours] = done.lines
    assert ours.startswith("warpline kernels ")
    settings = counter_flags.parse([word.value for word in split(ours)][2:])
    for name in settings.ignored:
        assert f"{name} has no effect here." in done.differs
    if settings.command:
        assert ours.endswith(line.split()[-1])


def test_a_line_of_ncu_that_warpline_refuses_says_why():
    done = translated(split("ncu --native-include main --clock-control reset ./a"))
    assert done.lines == ["warpline kernels ./a"]
    reasons = dict(done.left_out)
    assert reasons["--native-include main"] == "call stacks are not recorded"
    assert "nvidia-smi --reset-gpu-clocks" in reasons["--clock-control reset"]


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("nvprof ./a 1", ["warpline profile --stats=true ./a 1"]),
        (
            "nvprof --print-gpu-trace --csv -o x.nvprof ./a",
            ["warpline profile -o x ./a", "warpline stats -r cuda_gpu_trace -f csv x.warpline"],
        ),
        (
            "nvprof --metrics achieved_occupancy,ipc --kernels saxpy ./a",
            [f"warpline kernels --kernel-name regex:saxpy --metrics {OCCUPANCY_AND_IPC} ./a"],
        ),
        (
            "nvprof --profile-from-start off --unified-memory-profiling off -f ./a",
            ["warpline profile -c cudaProfilerApi -f=true --stats=true ./a"],
        ),
        (
            "mpirun -n 2 nvprof -t 5 ./a",
            ["mpirun -n 2 warpline profile --duration=5 --stats=true ./a"],
        ),
        ("nvprof --analysis-metrics -o y ./a", ["warpline kernels -o y --set full ./a"]),
        ("nsys nvprof ./a", ["warpline profile --stats=true ./a"]),
    ],
)
def test_lines_of_nvprof(line, ours):
    assert translated(split(line)).lines == ours


def test_metrics_of_nvprof_are_names_that_kernels_takes():
    words = ["--metrics", ",".join(METRICS.values()), "./a"]
    assert counter_flags.parse(words).metrics


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("nsys stats -r cuda_api_sum a.sqlite", "warpline stats -r cuda_api_sum a.sqlite"),
        ("nsys analyze -r gpu_gaps a.sqlite", "warpline analyze a.sqlite"),
        (
            "nsys export --type=sqlite -o b a.nsys-rep",
            "warpline export --type=sqlite -o b a.nsys-rep",
        ),
        ("nsys recipe nccl_sum --input a.sqlite", "warpline stats -r collective_kern_sum a.sqlite"),
        ("nsys launch -t cuda python a.py", "warpline launch -t cuda python a.py"),
        ("nsys start -c cudaProfilerApi -o x", "warpline start -c cudaProfilerApi -o x"),
        ("nsys stop", "warpline stop"),
        ("nsys-ui a.nsys-rep", "warpline view a.nsys-rep"),
        ("ncu-ui a.ncu-rep", "warpline view a.ncu-rep"),
    ],
)
def test_other_commands(line, ours):
    assert translated(split(line)).lines == [ours]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ls -l", "no nsys, ncu or nvprof"),
        ("nsys", "no command of nsys"),
        ("nsys profile", "missing PROGRAM"),
        ("nsys profile --nonsense=1 ./a", "unknown flag '--nonsense'"),
        ("nsys profile -o", "-o requires a value"),
        ("nsys service", "nsys service has no counterpart"),
        ("nsys recipe ucx_gpu_time_util_map", "has no counterpart"),
        ("nsys profile 'x", "quote in the line is not closed"),
        ("nvprof -i old.nvprof", "files of nvprof cannot be read"),
        ("nvprof -o", "-o requires a value"),
        ("nvprof", "names no program"),
        ("nsys stats --nonsense a.sqlite", "has no option '--nonsense'"),
    ],
)
def test_what_cannot_be_translated_is_an_error_of_one_line(line, message):
    with pytest.raises(UsageError, match=message):
        translated(split(line))


def test_words_are_split_as_a_shell_does():
    line = "a 'b c' \"d e\" f\\ g h=\"i j\" \\\n k ''"
    assert [word.value for word in split(line)] == shlex.split(line.replace("\\\n", " "))
    assert [word.raw for word in split(line)][1:5] == ["'b c'", '"d e"', "f\\ g", 'h="i j"']
    assert [word.raw for word in quoted(["a b", "c"])] == ["'a b'", "c"]
