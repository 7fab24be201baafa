"""Flame graphs: weights, labels and sums, on a program made by hand. Times in ms."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support import sampled_stacks
from support.sampled_stacks import MS

import warpline
from warpline.derived.flame.call_tree import function_sums, tree_by_thread
from warpline.derived.flame.profiles import profile
from warpline.derived.flame.threads import thread_name
from warpline.derived.flame.weighted import OFS, available, choose
from warpline.trace import MemorySource, Trace


@pytest.fixture(scope="module")
def trace():
    return sampled_stacks.trace()


def stacks(trace, of, **choice):
    """Return the time of each stack: thread and labels, the outermost first."""
    chosen = choose(trace, of, **choice)
    tree, labels = tree_by_thread(trace, chosen), profile(trace, chosen).labels
    paths: list[tuple[str, ...]] = []
    found: Counter[tuple[int | str, ...]] = Counter()
    rows = zip(tree.parent.tolist(), tree.label.tolist(), tree.self_ns.tolist(), strict=True)
    for place, (parent, label, own) in enumerate(rows):
        paths.append((*(paths[parent] if parent >= 0 else ()), labels.text(label)))
        if own:
            found[int(tree.group[place]), *paths[-1]] += own / MS
    assert sum(found.values()) == tree.total_ns[tree.parent < 0].sum() / MS
    return found


def test_cpu_samples_are_weighted_by_their_cpu_time(trace):
    train = (0, "_start", "train (train.py:9)")
    assert stacks(trace, "cpu") == {
        (*train, "decode (data;set.py:41)", "jpeg_read"): 2,
        (*train, "[libc.so.6]"): 2,
        (0, "[no backtrace]"): 1,
        (1, *["fib (fib.py:3)"] * 3): 2,
        (1, *["fib (fib.py:3)"] * 2): 2,
    }


def test_only_python_frames(trace):
    assert stacks(trace, "cpu", python_only=True) == {
        (0, "train (train.py:9)", "decode (data;set.py:41)"): 2,
        (0, "train (train.py:9)"): 2,
        (0, "[no backtrace]"): 1,
        (1, *["fib (fib.py:3)"] * 3): 2,
        (1, *["fib (fib.py:3)"] * 2): 2,
    }
    assert stacks(trace, "gpu", python_only=True) == {
        (0, "train (train.py:12)", "gemm"): 6,
        (0, "train (train.py:12)", "relu"): 1,
        (0, "[no backtrace]", "copy"): 3,
    }


def test_gpu_time_is_that_of_the_kernels_below_the_stack_of_their_launch(trace):
    launch = (0, "_start", "train (train.py:12)", "[libc.so.6]")
    assert stacks(trace, "gpu") == {
        (*launch, "gemm"): 6,
        (*launch, "relu"): 1,
        (0, "[no backtrace]", "copy"): 3,
    }


def test_calls_within_calls_count_once(trace):
    found = stacks(trace, "os")
    assert {path[-1]: time for path, time in found.items()} == {"fread": 4, "poll": 7}


def test_python_samples_count_wall_time(trace):
    assert sum(stacks(trace, "python").values()) == 10


def test_time_off_cpu_is_where_a_thread_stopped(trace):
    decode = (0, "_start", "train (train.py:9)", "decode (data;set.py:41)", "jpeg_read")
    fib = (1, *["fib (fib.py:3)"] * 3)
    # Without context switches, the worker is known to wait in its OS call.
    assert stacks(trace, "offcpu") == {decode: 3, (*decode, "fread"): 4, (*fib, "poll"): 7}


def test_recursion_counts_once_in_totals(trace):
    chosen = choose(trace, "cpu")
    sums, labels = function_sums(trace, chosen), profile(trace, chosen).labels
    rows = zip(sums.label.tolist(), sums.self_ns.tolist(), sums.total_ns.tolist(), strict=True)
    found = {labels.name[label]: (own / MS, total / MS) for label, own, total in rows}
    assert found["fib"] == (4, 4)
    assert found["train"] == (0, 4)
    assert found["_start"] == (0, 4)
    assert found["[libc.so.6]"] == (2, 2)
    assert sum(own for own, _ in found.values()) == 9


def test_threads_are_chosen_by_number_or_name(trace):
    assert choose(trace, "cpu", threads=["8"]).threads == (1,)
    assert choose(trace, "cpu", threads=["WORKER", "7"]).threads == (0, 1)
    assert {path[0] for path in stacks(trace, "cpu", threads=["worker"])} == {1}
    with pytest.raises(warpline.UsageError, match="no thread 'nobody'"):
        choose(trace, threads=["nobody"])


def test_names_of_threads(trace):
    assert thread_name(trace, 1) == ("pt_data;worker (8)", 7, 8)
    assert thread_name(trace, -1).text == "unknown thread"


def test_kinds_that_were_recorded(trace):
    assert available(trace) == OFS
    assert choose(trace).of == "cpu"
    with pytest.raises(warpline.UsageError, match="unknown kind"):
        choose(trace, "gpus")
    tables = sampled_stacks.tables()
    del tables["cpu_sample"], tables["sched_event"]
    other = Trace(MemorySource(tables))
    assert choose(other).of == "python"
    with pytest.raises(warpline.MissingTableError, match="Time off CPU") as error:
        choose(other, "offcpu")
    assert "--cpuctxsw=process-tree" in str(error.value.hint)
    with pytest.raises(warpline.MissingTableError, match="no samples"):
        choose(Trace(MemorySource({"process": tables["process"]})))


def test_sums_are_those_of_the_tables_of_an_export(capture):
    trace = warpline.open(capture("rich_metrics_sampling"))
    kernels = trace.columns("kernel", "start_ns", "end_ns")
    busy = (kernels["end_ns"].values - kernels["start_ns"].values).sum()
    for table in ("memcpy", "memset"):
        columns = trace.columns(table, "start_ns", "end_ns")
        busy += (columns["end_ns"].values - columns["start_ns"].values).sum()
    assert int(profile(trace, choose(trace, "gpu")).weight_ns.sum()) == int(busy)
    samples = profile(trace, choose(trace, "cpu"))
    assert len(samples.node) == trace.row_count("cpu_sample")
    assert bool((samples.node >= 0).all())
    assert np.unique(samples.thread).tolist() == sorted(
        {row for row in trace["cpu_sample"]["thread_id"].to_list() if row is not None}
    )
