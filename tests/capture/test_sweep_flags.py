"""The command line of ``warpline kernels sweep``."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpline.capture.flags import kernel_sweep_flags
from warpline.errors import UsageError
from warpline.sweep.points import Parameter
from warpline.sweep.state import Definition


def test_flags_of_the_sweep_and_of_counting() -> None:
    line = "--vary N=1,2 --vary=T=a,b --zip --repeat 3 --time-limit 90s -o dir --top 0 --json"
    counting = "-k gemm --set full --metrics=a,b -c 5 --check-exit-code no"
    words = f"{line} {counting} -q -- ./x {{N}} -k {{T}}".split()
    found = kernel_sweep_flags.parse(words)
    assert found.definition == Definition(
        "kernels",
        ("./x", "{N}", "-k", "{T}"),
        (Parameter("N", ("1", "2")), Parameter("T", ("a", "b"))),
        are_zipped=True,
        repeats=3,
        options=tuple(counting.split()),
    )
    assert (found.time_limit, found.output, found.top, found.format) == (90.0, "dir", 0, "json")
    assert (found.kernel_name, found.launch_count, found.check_exit_code) == ("gemm", 5, False)


def test_a_sweep_is_resumed_without_its_command() -> None:
    stored = kernel_sweep_flags.parse(
        ["--vary", "N=1,2", "-kgemm", "--sample", "7", "--", "./x", "{N}"]
    ).definition
    now = kernel_sweep_flags.parse(["-o", "dir", "--resume", "--time-limit", "9", "--csv"])
    assert (now.resume, now.command) == (True, ())
    found = kernel_sweep_flags.resumed(now, stored)
    assert found.definition == stored
    assert (found.kernel_name, found.sample) == ("gemm", 7)
    assert (found.output, found.time_limit, found.format) == ("dir", 9.0, "csv")


def test_a_directory_is_shown(tmp_path: Path) -> None:
    found = kernel_sweep_flags.parse([str(tmp_path), "--top", "3"])
    assert (found.shown, found.top) == (str(tmp_path), 3)
    with pytest.raises(UsageError, match="unexpected argument 'x'"):
        kernel_sweep_flags.parse([str(tmp_path), "x"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "missing --vary NAME=VALUES"),
        ("./x {N}", "missing --vary NAME=VALUES"),
        ("--vary N=1,2", "missing PROGRAM argument"),
        ("--vary N=1,2 -- ./x", "--vary N: {N} is not in the command"),
        ("--vary N=1,2 -- ./x {N} {M}", "{M} is in the command, but M is not varied"),
        ("--vary N=1,2 --vary M=1 --zip -- ./x {N} {M}", "--zip takes as many values"),
        ("--vary N=1,2 --resume -- ./x {N}", "--resume requires -o DIR"),
        ("--vary N=1,2 --retry-failed -- ./x {N}", "--retry-failed requires --resume"),
        ("--resume", "--resume requires -o DIR"),
        ("--vary N=1 --time-limit 0 -- ./x {N}", "--time-limit 0: expected a number of seconds"),
        ("--vary N=1 --time-limit nan -- ./x {N}", "--time-limit nan: expected a number"),
        ("--vary N=1 --repeat 0 -- ./x {N}", "--repeat 0: expected a number from 1 to 1000"),
        ("--vary N=1 --plot x.png -- ./x {N}", "--plot x.png: expected a file name that ends in"),
        ("--vary N=1 --format yaml -- ./x {N}", "--format yaml: expected one of text, csv, json"),
        ("--vary N=1 --page raw -- ./x {N}", "unknown flag '--page' of warpline kernels sweep"),
        ("--vary N=1 --kill yes -c 1 -- ./x {N}", "unknown flag '--kill'"),
    ],
)
def test_what_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError) as found:
        kernel_sweep_flags.parse(line.split())
    assert found.value.message.startswith(message)
    assert found.value.hint


@pytest.mark.parametrize(
    ("options", "asked", "not_asked"),
    [
        ("", "", "gpu__time_duration.sum sm__inst_executed.sum"),
        ("--metrics sm__inst_executed", "sm__inst_executed.sum", "gpu__time_duration.sum"),
        ("--metrics gpu__time_duration.sum,x", "gpu__time_duration.sum x.sum", ""),
        ("--metrics regex:inst", "sm__inst_executed.sum", "gpu__time_duration.sum"),
        (
            "--set light --metrics sm__inst_issued,regex:^lts",
            "lts__t_bytes.sum sm__inst_issued.max",
            "sm__inst_executed.sum sm__inst_issued_x.sum gpu__time_duration.sum",
        ),
    ],
)
def test_metrics_that_are_asked_for(options: str, asked: str, not_asked: str) -> None:
    found = kernel_sweep_flags.parse([*options.split(), "--vary", "N=1", "--", "./x", "{N}"])
    is_asked = kernel_sweep_flags.asked_metrics(found.definition)
    assert [name for name in (asked + " " + not_asked).split() if is_asked(name)] == asked.split()
