"""The command line of ``warpline kernels``: ncu's flags, and reports beside programs."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from warpline.capture.flags import counter_flags
from warpline.capture.flags.counter_flags import FLAGS, GRAMMAR
from warpline.capture.flags.counting import (
    DEFAULT_OVERHEAD,
    DEFAULT_SAMPLE,
    THAT_WAIT,
    CountingSettings,
    Page,
)
from warpline.capture.flags.ncu import FOREIGN_FLAGS, IGNORED
from warpline.capture.flags.settings import CaptureRange
from warpline.capture.session.agent_config import AgentConfig, CudaConfig
from warpline.errors import UsageError

METRICS = (("sm__inst_executed.sum", "inst"), ("smsp__thread_inst_executed_per_inst.ratio", ""))


def parse(line: str) -> CountingSettings:
    return counter_flags.parse(line.split())


def config(line: str, passes: int = 1) -> dict[str, list[str]]:
    """Return the keys that a command line writes to agent.conf."""
    counters = parse(line).counters(METRICS, passes)
    text = AgentConfig(nvtx=False, cuda=CudaConfig(), counters=counters).text()
    found: dict[str, list[str]] = {}
    for pair in text.splitlines():
        key, _, value = pair.partition("=")
        if key.startswith("counter"):
            found.setdefault(key, []).append(unquote(value))
    return found


# Lines of ncu's documentation, tutorials and job scripts -> the program, and flags without effect.
PASTED = {
    "--set full -o profile_result ./application": ("./application", []),
    "--set default --section SourceCounters --metrics sm__inst_executed_pipe_tensor.sum ./my-app": (
        "./my-app",
        [],
    ),
    "-o profile -f --set detailed --import-source yes python train.py --lr 1e-3": (
        "python train.py --lr 1e-3",
        ["--import-source"],
    ),
    "-k regex:gemm -c 1 -s 5 --target-processes all mpirun -n 2 ./a": ("mpirun -n 2 ./a", []),
    "--kernel-name my_kernel --launch-count=2 --launch-skip=0 ./a.out 1 2": ("./a.out 1 2", []),
    "--kernel-id ::foobar:2 CuVectorAdd": ("CuVectorAdd", []),
    "--nvtx --nvtx-include Domain@Range/ CuNvtx.exe": ("CuNvtx.exe", []),
    "--metrics dram__bytes.sum.per_second,sm__throughput.avg.pct_of_peak_sustained_elapsed"
    " --csv --page raw -- ./x -h": ("./x -h", []),
    "--profile-from-start off --replay-mode kernel --cache-control none --clock-control none"
    " --print-summary per-kernel ./x": ("./x", []),
    "--mode launch-and-attach --check-exit-code 0 --call-stack --apply-rules no --verbose"
    " --graph-profiling node --devices 0,1 ./x": (
        "./x",
        ["--call-stack", "--verbose"],
    ),
    "--log-file out.csv --csv --print-units base --print-fp --print-kernel-base function ./x": (
        "./x",
        ["--print-fp"],
    ),
    "-c 2 -- -odd-program": ("-odd-program", []),
    "-o r.csv --csv program": ("program", []),
}


@pytest.mark.parametrize("line", PASTED)
def test_lines_for_ncu_work(line: str) -> None:
    found = parse(line)
    command, ignored = PASTED[line]
    assert " ".join(found.command) == command
    assert found.ignored == ignored
    assert not found.imported


def test_values_are_what_ncu_makes_of_them() -> None:
    found = parse(
        "--set full --set roofline --section=Occupancy --metrics a.sum,b --metrics regex:^c,d"
        " -kfoo --kernel-name-base mangled --kernel-id 1:7:regex:x:2 -s3 -c=4"
        " --launch-skip-before-match 5 --devices=0,2 -o run_%i_%p --json -q ./x"
    )
    assert (found.sets, found.section) == (("full", "roofline"), ("Occupancy",))
    assert found.request.metrics == ("a.sum", "b", "regex:^c,d")
    assert (found.kernel_name, found.kernel_name_base) == ("foo", "mangled")
    assert found.kernel_id == ("1:7:regex:x:2",)
    assert (found.launch_skip, found.launch_count, found.launch_skip_before_match) == (3, 4, 5)
    assert found.devices == (0, 2)
    assert found.output == "run_%n_%p"  # ncu's %i is the lowest free number
    assert (found.json, found.quiet) == (True, True)


@pytest.mark.parametrize(
    ("line", "reports"),
    [
        ("run.ncu-rep", ["run.ncu-rep"]),
        ("a.ncu-rep b.ncu-repz --page raw c.csv", ["a.ncu-rep", "b.ncu-repz", "c.csv"]),
        ("-k foo x.warpline -c 1", ["x.warpline"]),
        ("--import report1", ["report1"]),
        ("-i a --csv b", ["a", "b"]),
        ("-i a -- -b", ["a", "-b"]),
        ("trace.json.gz", ["trace.json.gz"]),
    ],
)
def test_reports_are_read(line: str, reports: list[str]) -> None:
    found = parse(line)
    assert (found.imported, found.command) == (reports, ())


def test_what_follows_the_program_is_the_programs() -> None:
    found = parse("python x.ncu-rep --csv -o y")
    assert found.command == ("python", "x.ncu-rep", "--csv", "-o", "y")
    assert (found.imported, found.csv, found.output) == ([], False, None)
    assert parse("-- run.ncu-rep").command == ("run.ncu-rep",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "missing PROGRAM or REPORT argument"),
        ("--set", "--set requires a value"),
        ("--sett full x", "unknown flag '--sett' of warpline kernels"),
        ("-s -1 x", "-s -1: must be >= 0"),
        ("-c two x", "-c two: must be >= 0"),
        ("--page nonsense x", "--page nonsense: expected one of summary, details"),
        ("--page source x", "--page source: instructions are in reports of ncu only"),
        ("--kernel-id foo x", "invalid --kernel-id 'foo'"),
        ("--kernel-id a::foo:1 x", "invalid --kernel-id 'a::foo:1'"),
        ("-k regex:( x", "invalid expression 'regex:('"),
        ("--overhead 200 x", "--overhead 200: expected a percentage"),
        ("--devices a x", "--devices a: expected numbers of GPUs"),
        (
            "--replay-mode application --overhead 5 x",
            "--overhead cannot be combined with --replay-mode application: it depends on time",
        ),
        ("--replay-mode app-range --duty 2% x", "--duty cannot be combined with --replay-mode"),
        ("--app-replay-match all,name x", "--app-replay-match all,name"),
        ("--cache-control some x", "--cache-control some: expected one of none, all"),
        ("--cache-control all --replay-mode range x", "--cache-control all is not supported with"),
        ("--clock-control reset x", "--clock-control reset is not supported: CUPTI releases only"),
        ("--clock-control force-boost x", "--clock-control force-boost is not supported"),
        ("--clock-control high x", "--clock-control high: expected one of none, base, boost"),
        ("--target-processes none x", "--target-processes none: expected one of all"),
        ("--target-processes-filter a,,b x", "--target-processes-filter a,,b: expected NAME"),
        ("--target-processes-filter exclude: x", "--target-processes-filter exclude:: expected"),
        ("--target-processes-filter regex:( x", "invalid expression 'regex:('"),
        ("--kill yes x", "--kill yes requires -c"),
        ("--kill yes -c 2 --filter-mode per-gpu x", "--kill yes and --filter-mode per-gpu cannot"),
        ("--kill yes -c 2 --replay-mode steps x", "--kill yes is not supported with --replay-mode"),
        ("--kill yes -c 2 --replay-mode application x", "--kill yes is not supported with"),
        ("--cache-control all --replay-mode application x", "--cache-control all is not supported"),
        ("--graph-profiling graph x", "--graph-profiling graph is not supported"),
        ("--filter-mode per-kernel x", "--filter-mode per-kernel: expected one of global"),
        ("--range-filter :1:2 x", "--range-filter: NVTX ranges are those of --nvtx-include"),
        ("--range-filter 1 x", "invalid --range-filter '1'"),
        ("--range-filter :: x", "invalid --range-filter '::'"),
        ("--range-filter maybe:1: x", "invalid --range-filter 'maybe:1:'"),
        ("--range-filter :(: x", "--range-filter :(:: invalid expression '('"),
        ("--range-filter :1: --steps 1 --every 2 x", "--range-filter and --steps cannot"),
        ("--nvtx-include A[i] x", "--nvtx-include A[i]: unexpected ["),
        ("--nvtx-include D@A,E@B x", "--nvtx-include D@A,E@B: more than one domain"),
        ("--nvtx-include */A x", "--nvtx-include */A: * and + need a range on both sides"),
        ("--nvtx-include A//B x", "--nvtx-include A//B: a range has no name"),
        ("--nvtx-include @A x", "--nvtx-include @A: no domain before @"),
        ("--nvtx-include regex:A( x", "--nvtx-include regex:A(: invalid expression"),
        ("--nvtx-include regex:[AB]/ x", "--nvtx-include regex:[AB]/: [ is the bottom"),
        ("--nvtx-include A/B --replay-mode range x", "--replay-mode range counts one NVTX range"),
        ("--nvtx-exclude A --replay-mode range x", "--nvtx-exclude is not supported with"),
        ("--nvtx-include A/ r.ncu-rep", "launches of a report cannot be chosen by their NVTX"),
        ("--section-folder f x", "--section-folder is not supported: section files are not read"),
        ("--mode attach x", "--mode is not supported: a program cannot be attached to"),
        ("--python-include f x", "--python-include is not supported: call stacks"),
        ("--steps 2 x", "--steps and --every belong together"),
        ("--steps 9 --every 2 x", "--steps 9 exceeds --every 2"),
        (
            "--replay-mode range --nvtx-include A --profile-from-start no x",
            "--nvtx-include and --profile-from-start",
        ),
        ("--csv=yes x", "--csv takes no value"),
    ],
)
def test_mistakes_and_refusals_are_explained(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert caught.value.message.startswith(message)


def test_every_flag_without_effect_takes_what_it_takes_in_ncu() -> None:
    for name, flag in FOREIGN_FLAGS.items():
        if flag.effect == IGNORED and name.startswith("--"):
            value = "" if flag.is_switch else " 7"
            assert parse(f"{name}{value} ./x").ignored == [name]
            assert parse(f"{name}{value} ./x").command == ("./x",)


def test_no_flag_is_declared_twice() -> None:
    names = [name for flag in GRAMMAR.flags for name in flag.names]
    assert len(names) == len(set(names))
    assert FOREIGN_FLAGS.keys().isdisjoint(names)
    assert all(flag.help or flag.is_hidden for flag in FLAGS)


def test_a_plain_run_counts_some_launches_within_a_budget() -> None:
    found = config("python x.py")
    assert found["counter_sample"] == [str(DEFAULT_SAMPLE)]
    assert found["counter_budget_ppm"] == [str(round(DEFAULT_OVERHEAD * 10_000))]
    assert found["counter_replay"] == ["auto"]
    assert found["counter_metric"] == ["sm__inst_executed.sum inst", METRICS[1][0]]
    assert found["counter_exclude"] == [THAT_WAIT]
    assert found["counters"] == ["1"]


@pytest.mark.parametrize(
    "line",
    [
        *("--set light x", "--metrics a x", "--section Occupancy x", "-k foo x", "-c 3 x"),
        *("-s 1 x", "--nvtx-include A x", "--profile-from-start no x", "--kernel-id ::a:1 x"),
        *("--steps 1 --every 9 x", "--replay-mode range x", "--replay-mode application x"),
    ],
)
def test_every_launch_is_counted_if_something_is_chosen(line: str) -> None:
    found = config(line)
    assert (found["counter_sample"], found["counter_budget_ppm"]) == (["0"], ["0"])


def test_limits_may_be_named() -> None:
    assert config("--sample 3 x")["counter_sample"] == ["3"]
    assert config("--sample 0 --overhead 0 x")["counter_budget_ppm"] == ["0"]
    found = config("--set full --overhead=2.5% --sample 1 x", passes=35)
    assert (found["counter_budget_ppm"], found["counter_sample"]) == (["25000"], ["1"])


def test_filters_reach_the_agent() -> None:
    found = config(
        "-k regex:^a|b --kernel-name-base demangled --kernel-id ::x:1 --kernel-id 1:2:y:"
        " -s 1 -c 2 --launch-skip-before-match 3 --devices 1,3 x",
        passes=9,
    )
    assert found["counter_name_regex"] == ["^a|b"]
    assert "counter_name" not in found
    assert found["counter_name_base"] == ["demangled"]
    assert found["counter_kernel_id"] == ["::x:1", "1:2:y:"]
    assert (found["counter_skip"], found["counter_count"]) == (["1"], ["2"])
    assert found["counter_skip_before_match"] == ["3"]
    assert found["counter_devices"] == ["1,3"]
    assert config("-k gemm x")["counter_name"] == ["gemm"]


def test_ranges_bound_what_is_counted() -> None:
    whole = parse("--replay-mode app-range x")
    assert whole.capture("o", None).capture_range is CaptureRange.CUDA_PROFILER_API
    assert config("--replay-mode range x")["counter_replay"] == ["range"]
    assert "counter_exclude" not in config("--replay-mode range x")  # nothing is serialized
    named = parse("--replay-mode range --nvtx-include D@R/ x").capture("o", None)
    assert (named.capture_range, named.nvtx_capture) == (CaptureRange.NVTX, ("R", "D"))
    assert named.windows_wanted == 0
    begun = parse("--profile-from-start off x").capture("o", None)
    assert begun.capture_range is CaptureRange.CUDA_PROFILER_API
    assert parse("x").capture("o", None).capture_range is CaptureRange.NONE


def test_steps_as_passes_need_no_flags() -> None:
    found = parse("--replay-mode steps --set full x")
    assert found.counters(METRICS, 35).replay == "steps"
    sampling = found.capture("o", None).sampling
    assert sampling is not None
    assert (sampling.steps, sampling.every) == (1, 2)
    in_ranges = parse("--replay-mode steps --nvtx-include it x").capture("o", None)
    assert (in_ranges.sampling, in_ranges.nvtx_capture) == (None, ("it", None))


def test_the_launcher_records_no_timeline_beside_counters() -> None:
    settings = parse("--nvtx x")
    counters = settings.counters(METRICS, 1)
    assert settings.capture("o", counters).trace == ("cuda", "nvtx")
    assert parse("x").capture("o", counters).trace == ("cuda",)
    for line in ("--nvtx-include r x", "--steps 1 --every 9 x", "--replay-mode steps x"):
        assert parse(line).capture("o", counters).trace == ("cuda", "nvtx")  # to see the ranges
    assert parse("x").capture("o", None).trace == ("cuda", "nvtx")  # a timeline instead


@pytest.mark.parametrize(
    ("line", "is_list"),
    [
        ("--query-metrics --chips gh100,ga102 --csv", True),
        ("--chips ga100 --query-metrics", True),
        ("--list-sets", True),
        ("python x.py --list-sets", False),
        ("-- --list-sets", False),
        ("-k --list-sets x", False),
    ],
)
def test_lists_are_asked_for_before_the_program(line: str, is_list: bool) -> None:
    assert counter_flags.lists_something(line.split()) is is_list


def test_pages() -> None:
    assert parse("--page RAW x").page is Page.RAW
    assert parse("x").page is None


def test_sections_come_without_the_other_rollups_on_request() -> None:
    usual, exact = (
        parse(f"--section WarpStateStats {flag} ./x").request
        for flag in ("", "--disable-extra-suffixes")
    )
    assert [section.is_exact for section in usual.sections()] == [False]
    assert [section.is_exact for section in exact.sections()] == [True]
    (one,), (other,) = usual.sections(), exact.sections()
    assert one.requests() == other.requests()


def test_nvtx_expressions_are_given_to_the_agent_in_parts() -> None:
    found = config(
        r"--nvtx-include D@[A/*/B --nvtx-include regex:^x,y --nvtx-exclude A\[i\]/"
        " --nvtx-push-pop-scope process --range-filter yes:2-3:[24] x"
    )
    assert found["counter_nvtx_include"] == [
        "D@[A/*/B\npush\ntext\nD\n[\n=A\n*\n=B",
        "regex:^x,y\nstart\nregex\n\n=^x\n=y",
    ]
    assert found["counter_nvtx_exclude"] == ["A\\[i\\]/\npush\ntext\n\n=A[i]"]
    assert found["counter_nvtx_scope"] == ["process"]
    assert found["counter_window_instances"] == ["2-3"]
    assert found["counter_nvtx_instances"] == ["regex:[24]"]
    assert found["counter_nvtx_per_window"] == ["1"]


def test_a_range_filter_needs_ranges_of_the_profiler_only_if_it_names_them() -> None:
    assert not parse("--range-filter ::3 --nvtx-include A/ x").has_profiler_ranges
    settings = parse("--range-filter :3: x")
    capture = settings.capture("out", settings.counters(METRICS, 1))
    assert capture.capture_range is CaptureRange.CUDA_PROFILER_API


def test_one_range_is_the_window_of_replay_by_ranges_and_steps() -> None:
    for mode in ("range", "steps"):
        for text, wanted in {"A": ("A", None), "A/": ("A", None), "D@A/": ("A", "D")}.items():
            settings = parse(f"--replay-mode {mode} --nvtx-include {text} x")
            counters = settings.counters(METRICS, 1)
            capture = settings.capture("out", counters)
            assert (capture.capture_range, capture.nvtx_capture) == (CaptureRange.NVTX, wanted)
            assert not counters.ranges.include
    settings = parse("--nvtx-include A/ x")
    capture = settings.capture("out", settings.counters(METRICS, 1))
    assert (capture.capture_range, capture.trace) == (CaptureRange.NONE, ("cuda", "nvtx"))


def test_what_ncu_controls_is_left_alone_by_default() -> None:
    found = config("x")
    others = ("clocks", "caches", "kill", "filter_mode", "processes", "program", "nvtx_include")
    assert not {f"counter_{name}" for name in others} & found.keys()
    line = "--clock-control base --cache-control all --kill yes -c 2 --filter-mode global x"
    found = config(line)
    assert found["counter_clocks"] == ["base"]
    assert found["counter_caches"] == ["all"]
    assert found["counter_kill"] == ["1"]
    assert config("--filter-mode per-gpu x")["counter_filter_mode"] == ["per-gpu"]
    found = config("--target-processes-filter regex:^py,exclude:bash x")
    assert found["counter_processes"] == ["regex:^py", "exclude:bash"]
