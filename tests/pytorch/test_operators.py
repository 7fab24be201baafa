"""Operators of recorded PyTorch programs are those that torch.profiler counts."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

import warpline

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

BODY = """
import torch
torch.set_num_threads(1)

def run():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(6):
        with torch.profiler.record_function("whole step"):
            optimizer.zero_grad()
            torch.cat([model(torch.ones(4, 8)), torch.ones(4, 8)]).square().mean().backward()
            optimizer.step()
"""
PROFILED = """
import json, sys
CPU = torch.profiler.ProfilerActivity.CPU
with torch.profiler.profile(activities=[CPU], record_shapes=True) as profile:
    run()
rows = profile.key_averages(group_by_input_shape=True)
print(json.dumps([[row.key, row.input_shapes, row.count] for row in rows]))
"""


def record(tmp_path, text, *, asked="functions-trace-shapes", name="recorded", status=0):
    script, recording = tmp_path / f"{name}.py", tmp_path / f"{name}.warpline"
    script.write_text(BODY + text)
    words = ["profile", "-q", "-o", str(recording), f"--pytorch={asked}", sys.executable]
    done = subprocess.run(
        [sys.executable, "-m", "warpline", *words, str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return warpline.open(recording) if recording.exists() else None, done


def run_alone(tmp_path, text):
    script = tmp_path / "alone.py"
    script.write_text(BODY + text)
    words = [sys.executable, str(script)]
    return subprocess.run(words, capture_output=True, text=True, check=True)


def flat(shapes):
    """Return shapes without the nesting of lists of tensors, which key_averages leaves out."""
    return [[] if shape and isinstance(shape[0], list) else shape for shape in shapes]


def counts(trace, table="op_sum:shape"):
    result = warpline.stats(trace, table)
    names = [field.name for field in result.fields]
    wanted = [names.index(name) for name in ("name", "input_shapes", "calls")]
    found: Counter[tuple[str, str]] = Counter()
    for row in result.rows():
        name, shapes, calls = (row[place] for place in wanted)
        found[name, json.dumps(flat(json.loads(shapes or "[]")))] += calls
    return found


def counts_of_torch(printed):
    found: Counter[tuple[str, str]] = Counter()
    for name, shapes, calls in json.loads(printed.splitlines()[-1]):
        found[name, json.dumps(shapes)] += calls
    return found


def test_calls_and_shapes_are_those_of_key_averages(tmp_path):
    trace, _ = record(tmp_path, "run()\n")
    assert counts(trace) == counts_of_torch(run_alone(tmp_path, PROFILED).stdout)
    assert trace["op"]["input_dtypes"].drop_nulls().len() > 100
    assert trace.meta.warnings == ()
    start, end = trace.meta.span_ns
    assert trace["op"]["start_ns"].min() >= start
    assert trace["op"]["end_ns"].max() <= end


def test_a_program_records_its_own_operators(tmp_path):
    text = """
import warpline
run()
with warpline.profile("run.warpline", trace="nvtx", pytorch="functions-trace-shapes") as profile:
    run()
print(profile.trace["op"].height)
run()
"""
    script = tmp_path / "program.py"
    script.write_text(BODY + text)
    words = [sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stderr, int(done.stdout) > 100) == ("", True)
    assert counts(warpline.open(tmp_path / "run.warpline")) == counts_of_torch(
        run_alone(tmp_path, PROFILED).stdout
    )


def test_kineto_prints_nothing_for_our_records(tmp_path):
    _, done = record(tmp_path, "run()\n")
    assert (done.stdout, done.stderr) == ("", run_alone(tmp_path, "run()\n").stderr)


def test_the_programs_own_profiler_sees_what_it_sees_alone(tmp_path):
    after = "run()\n"
    trace, done = record(tmp_path, "run()\n" + PROFILED + after)
    alone = run_alone(tmp_path, "run()\n" + PROFILED + after)
    assert counts_of_torch(done.stdout) == counts_of_torch(alone.stdout)
    # Kineto's own lines, with times and process ids, if this version prints some.
    assert len(done.stderr.splitlines()) == len(alone.stderr.splitlines())
    assert [text for text in trace.meta.warnings if "the program uses torch.profiler" in text]
    # Twice without the program's profiler: once before and once after it.
    assert counts(trace)["aten::gelu", "[[4, 16], []]"] in {11, 12}


def test_errors_of_the_programs_profiler_stay(tmp_path):
    text = """
with torch.autograd.profiler.profile() as profile:
    try:
        profile.__enter__()
    except RuntimeError as error:
        print(type(error).__name__)
"""
    _, done = record(tmp_path, text)
    assert done.stdout == run_alone(tmp_path, text).stdout == "RuntimeError\n"


def test_the_trace_of_the_programs_profiler_can_be_merged(tmp_path):
    text = PROFILED + f"profile.export_chrome_trace({str(tmp_path / 'trace.json')!r})\n"
    trace, done = record(tmp_path, text)
    merged = warpline.merge(trace, tmp_path / "trace.json")
    assert counts(merged) == counts_of_torch(done.stdout)
    with pytest.raises(warpline.InputError, match="already"):
        warpline.merge(merged, tmp_path / "trace.json")


def test_a_fork_goes_on_without_records(tmp_path):
    text = """
import os
run()
pid = os.fork()
if pid == 0:
    run()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    trace, done = record(tmp_path, text)
    assert done.stdout == "7\n"
    assert counts(trace)["aten::gelu", "[[4, 16], []]"] == 6


def test_a_killed_program_says_what_is_missing(tmp_path):
    text = "run()\nimport os\nos.kill(os.getpid(), 9)\n"
    trace, _ = record(tmp_path, text, status=-9)
    assert [text for text in trace.meta.warnings if "before it wrote torch's records" in text]


def test_records_are_taken_between_steps_and_none_is_lost(tmp_path, monkeypatch):
    once, _ = record(tmp_path, "run()\n")
    text = """
import sys
sys.modules["_warpline_injected.observer"]._held._taker._pause_s = 0
sys.modules["_warpline_injected.operators"]._FIRST_S = 0
run()
"""
    often, _ = record(tmp_path, text, name="often")
    assert counts(often) == counts(once)


def test_nothing_of_torch_is_replaced_afterwards(tmp_path):
    text = """
before = sys.modules["_warpline_injected"]
before.end()
profiler = torch.autograd.profiler
print([hasattr(one, "__wrapped__") for one in (
    profiler._enable_profiler, profiler._disable_profiler, profiler.record_function.__enter__,
    torch.nn.Module.__call__)])
"""
    _, done = record(tmp_path, "import sys\nrun()\n" + text)
    assert done.stdout == "[False, False, False, False]\n"


def test_modules_and_operators_may_be_recorded_together(tmp_path):
    alone, _ = record(tmp_path, "run()\n")
    both, _ = record(tmp_path, "run()\n", asked="all,functions-trace-shapes", name="both")
    # Steps of the optimizer are ranges of their own then, and no annotations.
    assert counts(both) == {key: n for key, n in counts(alone).items() if "Optimizer" not in key[0]}
    assert "Sequential.0" in both["range"]["name"].to_list()


def test_environment_is_that_of_the_program(tmp_path):
    _, done = record(tmp_path, "import os\nprint('KINETO_LOG_LEVEL' in os.environ)\n")
    assert ("KINETO_LOG_LEVEL" in os.environ) == (done.stdout.strip() == "True")
