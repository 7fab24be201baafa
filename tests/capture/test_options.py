"""The command line of ``warpline profile``: nsys's flags and grammar."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from warpline.capture.flags import capabilities, parsing
from warpline.capture.flags.declarations import EXPORT_TYPES, FLAGS, GRAMMAR
from warpline.capture.flags.nsys import FOREIGN_FLAGS
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.session.agent_config import OsCallsConfig
from warpline.capture.session.control import RangeMode
from warpline.capture.session.names import export_path
from warpline.capture.session.preload import SHIM
from warpline.errors import UsageError

HINT = GRAMMAR.hint


def parse(line: str) -> CaptureSettings:
    return parsing.parse(line.split())


# Lines from tutorials and job scripts -> what is said about them, in order.
PASTED = {
    "-w true -t cuda,nvtx,osrt,cudnn,cublas -s cpu -o nsight_report -f true"
    " --capture-range=cudaProfilerApi --stop-on-range-end=true --cudabacktrace=true -x true"
    " python main.py": ["-s=cpu is not supported; using process-tree"],
    "--trace=nvtx --sample=none --cpuctxsw=none --gpu-metrics-devices=none python a.py": [],
    "-t nvtx -snone -b none --cuda-memory-usage=false --nic-metrics 0 ./a.out": [],
    "--gpu-metrics-device=all --gpu-metrics-frequency 20000 --python-sampling=true python a.py": [],
    "--python-sampling=true --python-functions-trace=a.json python a.py": [
        "--python-functions-trace is not supported",
    ],
    "--session-new=run1 --trace-fork-before-exec=true -Y true ./a": [
        "--session-new is ignored",
        "--trace-fork-before-exec is ignored",
        "-Y is ignored",
    ],
    "-s cpu -b lbr --sample=process-tree ./a": [
        "-s=cpu is not supported; using process-tree",
        "-b=lbr is not supported; using dwarf",
    ],
}


@pytest.mark.parametrize("line", PASTED)
def test_pasted_lines_work_and_say_once_what_is_not_collected(line):
    found = parse(line)
    said = [text.split(" (")[0] for text in found.warnings]
    assert said == PASTED[line]
    assert all("(" in text for text in found.warnings)


def test_by_default_nothing_is_said():
    found = parse("python a.py")
    assert found.warnings == []
    assert found.trace == ("cuda", "nvtx")
    assert found.command == ("python", "a.py")


@pytest.mark.parametrize(
    "line", ["-o x", "-ox", "-o=x", "--output x", "--output=x"], ids=lambda line: line
)
def test_a_value_stands_where_nsys_lets_it(line):
    assert parse(f"{line} ls").output == "x"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-f", True),
        ("-f true", True),
        ("-f TRUE", True),
        ("-f=yes", True),
        ("-f 1", True),
        ("--force-overwrite", True),
        ("--force-overwrite=on", True),
        ("-f false", False),
        ("--force-overwrite no", False),
        ("-f0", False),
    ],
)
def test_a_switch_takes_a_value_or_none(line, expected):
    found = parse(f"{line} truth")
    assert found.force_overwrite is expected
    assert found.command == ("truth",)


def test_flags_end_where_the_program_begins():
    assert parse("-q ls -f -o x --help").command == ("ls", "-f", "-o", "x", "--help")
    assert parse("-q -- -x y").command == ("-x", "y")
    assert parse("ls -- -x").command == ("ls", "--", "-x")
    assert parse("-- -").command == ("-",)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "missing PROGRAM argument", "run warpline profile -- python train.py"),
        ("-q --", "missing PROGRAM argument", "run warpline profile -- python train.py"),
        ("--trac=nvtx ls", "unknown flag '--trac' of warpline profile", "did you mean --trace?"),
        (
            "--sampel=none ls",
            "unknown flag '--sampel' of warpline profile",
            "did you mean --sample?",
        ),
        ("-o", "-o requires a value", HINT),
        ("-o -- ls", "-o requires a value", HINT),
        ("--output= ls", "--output requires a value", HINT),
        ("-t cdua ls", "-t: unknown API 'cdua'", "did you mean cuda?"),
        (
            "-t ruby ls",
            "-t: unknown API 'ruby'",
            capabilities.HINT,
        ),
        ("-t , ls", "-t requires a value", "use -t cuda,nvtx"),
        ("-y x ls", "-y x: expected a number of seconds", HINT),
        ("-y -1 ls", "-y -1: expected a number of seconds, 0 or more", HINT),
        ("-y nan ls", "-y nan: expected a number of seconds, 0 or more", HINT),
        ("-d 0 ls", "-d 0: expected a number of seconds above 0", HINT),
        ("-f=maybe ls", "-f maybe: expected true or false", HINT),
        ("--quiet=true ls", "--quiet takes no value", HINT),
        ("--wait=none ls", "--wait none: expected one of primary, all", HINT),
        ("--kill=99 ls", "--kill 99: expected none, sigkill", HINT),
        ("-c nvtx ls", "-c nvtx requires -p", "use -c nvtx -p RANGE[@DOMAIN]"),
        ("-c nvtx -p @d ls", "-p @d: expected RANGE[@DOMAIN]", HINT),
        ("--capture-range-end=repeat:0 ls", "--capture-range-end repeat:0: expected", HINT),
        ("--capture-range-end=stop:2 ls", "--capture-range-end stop:2: expected", HINT),
        ("--capture-range-end=repeat-shutdown ls", "--capture-range-end repeat-", HINT),
        ("-e A ls", "-e A: expected NAME=VALUE", HINT),
        ("-e =1 ls", "-e =1: expected NAME=VALUE", HINT),
        ("-x false ls", "-x false requires --duration", "use -d SECONDS -x false"),
        ("--export=excel ls", "--export excel: expected one of", HINT),
        ("--nvtx-domain-include=a --nvtx-domain-exclude=b ls", "--nvtx-domain-include", "use one"),
        ("--command-file=/no/such ls", "--command-file /no/such: No such file", HINT),
    ],
)
def test_mistakes_are_named(line, message, hint):
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert caught.value.message.startswith(message)
    assert caught.value.hint == hint or "--command-file" in line


def test_values_are_what_nsys_makes_of_them():
    found = parse(
        "-e A=1,2,B=x=y --env-var C= --kill=SIGINT -y 1.5 --duration=2s --wait PRIMARY"
        " --export=sqlite,parquetdir --export json --stats=true"
        r" --nvtx-domain-include=default,a\,b --nvtx-domain-include c ls"
    )
    assert found.env_var == {"A": "1,2", "B": "x=y", "C": ""}
    assert found.kill == signal.SIGINT
    assert (found.delay, found.duration, found.wait) == (1.5, 2.0, "primary")
    assert found.export == ("sqlite", "parquet", "json")
    assert found.nvtx_domain_include == ("default", "a,b", "c")
    assert found.stats
    assert parse("--kill=none ls").kill is None
    assert parse("--kill 9 ls").kill == signal.SIGKILL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step", ("step", None)),
        ("step@dom", ("step", "dom")),
        ("step@*", ("step", "*")),
        (r"a\@b@c", ("a@b", "c")),
        ("a@b@c", ("a@b", "c")),
    ],
)
def test_a_range_may_name_its_domain(text, expected):
    found = parse(f"-c nvtx -p {text} ls")
    assert found.nvtx_capture == expected
    assert found.mode is RangeMode.NVTX


@pytest.mark.parametrize(
    ("end", "wanted", "ends"),
    [
        ("none", 0, False),
        ("stop", 1, False),
        ("stop-shutdown", 1, True),
        ("repeat", 0, False),
        ("repeat:3", 3, False),
        ("repeat:3:sync", 3, False),
        ("repeat:async", 0, False),
        ("repeat-shutdown:2", 2, True),
    ],
)
def test_the_end_of_a_range(end, wanted, ends):
    found = parse(f"-c nvtx -p a --capture-range-end={end} ls")
    assert (found.windows_wanted, found.ends_program) == (wanted, ends)


def test_without_a_range_its_end_means_nothing():
    found = parse("--capture-range-end=stop -p a ls")
    assert found.windows_wanted == 0
    assert [text.split(" is ")[0] for text in found.warnings] == ["-p", "--capture-range-end"]


def test_flags_come_from_a_file(tmp_path):
    file = tmp_path / "flags"
    file.write_text("-t nvtx  # what we need\n-o 'a b'\n")
    found = parse(f"-f true --command-file={file} -q python a.py")
    assert (found.trace, found.output, found.force_overwrite) == (("nvtx",), "a b", True)
    assert found.quiet
    assert found.command == ("python", "a.py")


def test_a_file_that_names_itself_ends(tmp_path):
    file = tmp_path / "flags"
    file.write_text(f"--command-file {file}")
    with pytest.raises(UsageError, match="more than 8 nested files"):
        parse(f"--command-file {file} ls")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--help", True),
        ("-t nvtx -h", True),
        ("--help=nvtx", True),
        ("-o --help ls", False),
        ("python --help", False),
        ("-q -- --help", False),
        ("-s none ls -h", False),
        ("-f -h", True),
    ],
)
def test_help_is_asked_for_before_the_program(line, expected):
    assert GRAMMAR.asks_for_help(line.split()) is expected


def test_metrics_of_gpus():
    asked = parse("--gpu-metrics-device=0,1 --gpu-metrics-frequency 200000 x").gpu_metrics
    assert asked is not None
    assert (asked.devices, asked.hz, asked.metrics.name, asked.is_checked) == (
        "0,1",
        200_000,
        "general",
        True,
    )
    every = parse("--gpu-metrics-devices=ALL --gpu-metrics-set=L2 x").gpu_metrics
    assert every is not None
    assert (every.devices, every.hz, every.metrics.name) == ("all", 10_000, "l2")
    assert not every.is_checked
    assert parse("x").gpu_metrics is None
    assert parse("--gpu-metrics-devices=none x").gpu_metrics is None


def test_sets_of_nsys_are_replaced():
    settings = parse("--gpu-metrics-devices=all --gpu-metrics-set=ga10x-gfxt x")
    assert settings.gpu_metrics_set == "general"
    assert settings.warnings == [
        "--gpu-metrics-set=ga10x-gfxt is a set of nsys; general is sampled instead"
    ]


def test_flags_of_metrics_without_a_gpu_are_ignored():
    assert parse("--gpu-metrics-set=l2 x").warnings == [
        "--gpu-metrics-set is ignored (it requires --gpu-metrics-devices)"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "--gpu-metrics-devices=one",
        "--gpu-metrics-devices=0,all",
        "--gpu-metrics-devices=",
        "--gpu-metrics-frequency=9",
        "--gpu-metrics-frequency=200001",
        "--gpu-metrics-devices=all --gpu-metrics-set=nosuch",
    ],
)
def test_metrics_that_cannot_be_asked_for(line):
    with pytest.raises(UsageError):
        parse(f"{line} x")


@pytest.mark.parametrize("flag", ["--gpu-metrics-devices", "--gpu-metrics-set"])
def test_lists_need_no_program(flag):
    assert parse(f"{flag}=help").asks_for_lists


def test_every_flag_has_one_meaning():
    own = [name for flag in FLAGS for name in flag.names]
    assert len(own) == len(set(own))
    assert not set(own) & set(FOREIGN_FLAGS)
    for flag in FLAGS:
        assert hasattr(CaptureSettings(), flag.attribute) or flag.names[-1] in {
            "--debug",
            "--command-file",
        }


def test_what_is_collected_is_known_in_one_place():
    assert not set(capabilities.COLLECTED) & set(capabilities.NOT_YET)
    assert capabilities.lacking(("nvtx", "vulkan", "none", "vulkan", "cuda")) == ["vulkan"]
    assert capabilities.collected(("osrt", "nvtx", "vulkan", "cuda")) == ["cuda", "nvtx", "osrt"]
    assert capabilities.WHY_NOT.startswith("this version records only cuda, nvtx")


def test_calls_of_cuda_open_capture_ranges_and_keys_do_not():
    assert parse("-c hotkey ls").mode is RangeMode.NONE
    assert parse("-c hotkey ls").warnings == [
        "-c hotkey is not supported; the whole run is recorded"
    ]
    found = parse("-c cudaProfilerApi --capture-range-end=repeat-shutdown:2 ls")
    assert found.mode is RangeMode.CUDA_PROFILER_API
    assert (found.windows_wanted, found.ends_program, found.warnings) == (2, True, [])


def test_what_is_recorded_of_cuda_is_chosen_by_flags():
    plain = parse("ls")
    assert (plain.cuda_graph_trace, plain.cuda_memory_usage) == ("node", False)
    assert (plain.cuda_trace_all_apis, plain.cuda_flush_interval) == (False, 1000)
    found = parse(
        "--cuda-graph-trace=graph:host-only --cuda-memory-usage=true --cuda-trace-all-apis true"
        " --cuda-flush-interval=250 -t cuda-sw ls"
    )
    assert (found.cuda_graph_trace, found.cuda_memory_usage) == ("graph", True)
    assert (found.cuda_trace_all_apis, found.cuda_flush_interval) == (True, 250)
    assert (found.trace, found.warnings) == (("cuda",), [])
    assert parse("--cuda-flush-interval=0 ls").cuda_flush_interval == 1000


def test_page_faults_of_unified_memory_are_recorded_on_request():
    plain = parse("ls")
    assert (plain.cuda_um_cpu_page_faults, plain.cuda_um_gpu_page_faults) == (False, False)
    found = parse("--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults false ls")
    assert (found.cuda_um_cpu_page_faults, found.cuda_um_gpu_page_faults) == (True, False)
    assert found.warnings == []


def test_cupti_is_detached_between_samples_unless_it_is_to_stay():
    found = parse("--steps 5 --every 100 ls")
    assert (found.cuda_detach, found.warnings) == (True, [])
    found = parse("--steps 5 --every 100 --cuda-detach=false ls")
    assert (found.cuda_detach, found.warnings) == (False, [])
    assert not parse("ls").warnings
    (warning,) = parse("--cuda-detach=true ls").warnings
    assert warning.startswith("--cuda-detach is ignored")


def test_waits_are_from_calls_or_from_cupti():
    assert parse("ls").cuda_waits == "calls"
    found = parse("--cuda-waits=CUPTI ls")
    assert (found.cuda_waits, found.warnings) == ("cupti", [])
    (warning,) = parse("--cuda-waits=cupti --steps 5 --every 100 ls").warnings
    assert warning.startswith("--cuda-waits=cupti is ignored")
    with pytest.raises(UsageError, match="expected one of calls, cupti"):
        parse("--cuda-waits=none ls")


@pytest.mark.parametrize(
    "words", ["--cuda-graph-trace=all", "--cuda-graph-trace=node:x", "--cuda-flush-interval=1.5"]
)
def test_a_wrong_value_of_cudas_flags_is_refused(words):
    with pytest.raises(UsageError, match="expected "):
        parse(f"{words} ls")


def test_export_types_are_those_that_there_are():
    from warpline import plugins
    from warpline.exporters import EXPORTERS

    plugins.load("exporters")
    assert set(EXPORT_TYPES) == set(EXPORTERS.names()) - {"warpline"}
    for kind in EXPORT_TYPES:  # named as by warpline export
        assert export_path(Path("run.warpline"), kind).name == f"run{EXPORTERS.get(kind).ending}"


def test_calls_of_the_c_library_are_chosen_by_their_time():
    found = parse("-t nvtx,osrt ./a")
    assert found.os_calls == OsCallsConfig(1000, 80_000)
    assert found.preload == (SHIM,)
    found = parse("-t osrt --osrt-threshold=0 --osrt-backtrace-threshold 0 ./a")
    assert found.os_calls == OsCallsConfig(0, None)
    found = parse("--osrt-threshold=5 ./a")
    assert (found.os_calls, found.preload) == (None, ())
    assert found.warnings == ["--osrt-threshold is ignored (it requires -t osrt)"]


def test_backtraces_of_library_calls_are_chosen_by_their_time():
    assert parse("-t cuda,cublas ./a").library_backtrace_threshold is None
    found = parse("-t cuda,cublas --library-backtrace-threshold=0 ./a")
    assert (found.library_backtrace_threshold, found.warnings) == (0, [])
    found = parse("-t cuda,openmp --library-backtrace-threshold=5 ./a")
    (warning,) = found.warnings
    assert warning.startswith("--library-backtrace-threshold is ignored")
