"""Stacks for other viewers, read back by readers of their formats: stacks, threads and sums."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest
from support import sampled_stacks
from support.sampled_stacks import MS

import warpline
from warpline.derived.flame.profiles import profile
from warpline.derived.flame.weighted import OFS, choose
from warpline.trace import MemorySource, Trace

MAIN, WORKER = "python3 (7)", "pt_data;worker (8)"
# Thread and frames of the CPU samples, the outermost first, and their time in ms.
CPU = {
    (MAIN, "_start", "train", "decode", "jpeg_read"): 2,
    (MAIN, "_start", "train", "[libc.so.6]"): 2,
    (MAIN, "[no backtrace]"): 1,
    (WORKER, "fib", "fib", "fib"): 2,
    (WORKER, "fib", "fib"): 2,
}


@pytest.fixture(scope="module")
def trace():
    return sampled_stacks.trace()


def exported(trace, tmp_path, kind, **choice):
    stacks = warpline.stack_choice(trace, **choice)
    return warpline.export(trace, tmp_path / "run", kind, stacks=stacks, overwrite=True)


def of_collapsed(path):
    found: Counter[tuple[str, ...]] = Counter()
    for line in path.read_text().splitlines():
        stack, _, time = line.rpartition(" ")
        found[tuple(stack.split(";"))] += int(time)
    return found


def of_speedscope(path):
    document = json.loads(path.read_text())
    frames = document["shared"]["frames"]
    found: Counter[tuple[str, ...]] = Counter()
    for one in document["profiles"]:
        assert (one["type"], one["unit"]) == ("sampled", "nanoseconds")
        assert one["endValue"] == sum(one["weights"])
        for stack, weight in zip(one["samples"], one["weights"], strict=True):
            found[one["name"], *(frames[frame]["name"] for frame in stack)] += weight
    return found


def of_firefox(path):
    document = json.loads(path.read_text())
    shared = document["shared"]
    for table in ("stackTable", "frameTable", "funcTable", "resourceTable", "sources"):
        columns = shared[table]
        assert {len(v) for k, v in columns.items() if k != "length"} == {columns["length"]}, table
    text, frames, functions = (shared[k] for k in ("stringArray", "frameTable", "funcTable"))
    paths: list[tuple[str, ...]] = []
    stacks = shared["stackTable"]
    for frame, above in zip(stacks["frame"], stacks["prefix"], strict=True):
        name = text[functions["name"][frames["func"][frame]]]
        paths.append((*(() if above is None else paths[above]), name))
    found: Counter[tuple[str, ...]] = Counter()
    for thread in document["threads"]:
        samples = thread["samples"]
        assert samples["time"] == sorted(samples["time"])
        for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
            found[thread["name"], *paths[stack]] += round(weight * MS)
    return found


def of_pprof(path):
    message = fields(gzip.decompress(path.read_bytes()))
    text = [value.decode() for value in message[6]]
    functions = {one[1][0]: text[one[2][0]] for one in map(fields, message[5])}
    mappings = {fields(one)[1][0] for one in message[3]}
    locations = {}
    for one in map(fields, message[4]):
        assert one[2][0] in mappings
        locations[one[1][0]] = functions[fields(one[4][0])[1][0]]
    found: Counter[tuple[str, ...]] = Counter()
    for one in map(fields, message[2]):
        labels = {text[each[1][0]]: each for each in map(fields, one[3])}
        thread = text[labels["thread"][2][0]]
        assert labels["tid"][3][0] in {7, 8}
        names = [locations[place] for place in numbers(one[1][0])]
        _, time = numbers(one[2][0])
        found[thread, *reversed(names)] += time
    kinds = [[text[one[1][0]], text[one[2][0]]] for one in map(fields, message[1])]
    assert kinds[0] == ["samples", "count"]
    assert kinds[1][1] == "nanoseconds"
    assert text[message[14][0]] == kinds[1][0]
    return found


def fields(data):
    """Return the values of each field of a Protocol Buffers message, by its number."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = number(data, at)
        value, at = number(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        found.setdefault(key >> 3, []).append(value)
    return found


def number(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def numbers(data):
    found, at = [], 0
    while at < len(data):
        value, at = number(data, at)
        found.append(value)
    return found


READERS = {"speedscope": of_speedscope, "firefox": of_firefox, "pprof": of_pprof}


@pytest.mark.parametrize("kind", READERS)
def test_each_stack_of_each_thread_has_its_time(trace, tmp_path, kind):
    found = READERS[kind](exported(trace, tmp_path, kind))
    assert found == {stack: time * MS for stack, time in CPU.items()}


def test_collapsed_stacks_have_no_separator_in_names(trace, tmp_path):
    fib = "fib (fib.py:3)"
    train = ("python3 (7)", "_start", "train (train.py:9)")
    assert of_collapsed(exported(trace, tmp_path, "collapsed")) == {
        (*train, "decode (data:set.py:41)", "jpeg_read"): 2 * MS,
        (*train, "[libc.so.6]"): 2 * MS,
        ("python3 (7)", "[no backtrace]"): MS,
        ("pt_data:worker (8)", fib, fib, fib): 2 * MS,
        ("pt_data:worker (8)", fib, fib): 2 * MS,
    }


@pytest.mark.parametrize("of", OFS)
@pytest.mark.parametrize("kind", [*READERS, "collapsed"])
def test_sums_are_exact(trace, tmp_path, kind, of):
    found = {**READERS, "collapsed": of_collapsed}[kind](exported(trace, tmp_path, kind, of=of))
    assert sum(found.values()) == int(profile(trace, choose(trace, of)).weight_ns.sum())


def test_lines_files_and_ranges(trace, tmp_path):
    document = json.loads(exported(trace, tmp_path, "speedscope").read_text())
    assert {"name": "decode", "file": "/app/data;set.py", "line": 41} in document["shared"][
        "frames"
    ]
    document = json.loads(exported(trace, tmp_path, "firefox").read_text())
    text = document["shared"]["stringArray"]
    main = next(thread for thread in document["threads"] if thread["name"] == MAIN)
    assert main["isMainThread"]
    assert [text[name] for name in main["markers"]["name"]] == ["step"]
    assert (main["markers"]["startTime"], main["markers"]["endTime"]) == ([1], [6])
    assert 41 in document["shared"]["frameTable"]["line"]


def test_stacks_of_one_thread_and_python_only(trace, tmp_path):
    found = of_speedscope(exported(trace, tmp_path, "speedscope", threads=["8"]))
    assert {stack[0] for stack in found} == {WORKER}
    found = of_speedscope(exported(trace, tmp_path, "speedscope", python_only=True))
    assert found[MAIN, "train"] == 2 * MS


def test_samples_in_a_row_with_one_stack_are_one(trace, tmp_path):
    document = json.loads(exported(trace, tmp_path, "speedscope").read_text())
    main = next(one for one in document["profiles"] if one["name"] == MAIN)
    assert main["weights"] == [2 * MS, 2 * MS, MS]


def test_equal_profiles_are_equal_files(trace, tmp_path):
    first = exported(trace, tmp_path, "pprof").read_bytes()
    assert exported(trace, tmp_path, "pprof").read_bytes() == first


def test_a_part_of_the_time(trace, tmp_path):
    part = warpline.select(trace, filter_time="0/2ms")
    found = of_speedscope(exported(part, tmp_path, "speedscope"))
    assert found[MAIN, "_start", "train", "decode", "jpeg_read"] in {MS, 2 * MS}
    assert (MAIN, "[no backtrace]") not in found


def test_tables_and_stacks_do_not_mix(trace, tmp_path):
    with pytest.raises(warpline.UsageError, match="pprof has no tables"):
        warpline.export(trace, tmp_path / "run", "pprof", tables=["kernel"])
    with pytest.raises(warpline.UsageError, match="not chosen stacks"):
        warpline.export(trace, tmp_path / "run", "json", stacks=warpline.stack_choice(trace))


# File and line of each frame of a function, of which a part is code of another file.
LINED = {("sort", "/src/sort.c", 30), ("sort", "/src/swap.h", 7), ("read", "/usr/lib/libc.so.6", 0)}


@pytest.fixture(scope="module")
def lined():
    tables = sampled_stacks.tables()
    names, files, lines = (
        ["sort", "sort", "read"],
        ["/src/sort.c", "/src/swap.h", None],
        [30, 7, None],
    )
    tables["frame"] = {
        "symbol": names,
        "module": ["/usr/lib/libsort.so", "/usr/lib/libsort.so", "/usr/lib/libc.so.6"],
        "file": files,
        "line": lines,
        "kind": [sampled_stacks.NATIVE] * 3,
        "is_unresolved": [False] * 3,
    }
    tables["stack"] = {"parent_id": [None] * 3, "frame_id": [0, 1, 2], "depth": [0] * 3}
    samples = tables["cpu_sample"]
    samples["stack_id"] = [n % 3 for n in range(len(samples["stack_id"]))]
    kept = {name: tables[name] for name in ("process", "thread", "frame", "stack", "cpu_sample")}
    return Trace(MemorySource(kept))


def test_speedscope_has_lines_of_native_code(lined, tmp_path):
    document = json.loads(exported(lined, tmp_path, "speedscope").read_text())
    frames = document["shared"]["frames"]
    assert {(one["name"], one["file"], one.get("line", 0)) for one in frames} == LINED


def test_firefox_has_lines_of_native_code(lined, tmp_path):
    shared = json.loads(exported(lined, tmp_path, "firefox").read_text())["shared"]
    text, frames, functions = (shared[k] for k in ("stringArray", "frameTable", "funcTable"))
    found = set()
    for function, line in zip(frames["func"], frames["line"], strict=True):
        source, library = functions["source"][function], functions["resource"][function]
        named = text[shared["resourceTable"]["name"][library]]
        file = named if source is None else text[shared["sources"]["filename"][source]]
        found.add((text[functions["name"][function]], file, line or 0))
        assert named in {"/usr/lib/libsort.so", "/usr/lib/libc.so.6"}
    assert found == LINED


def test_pprof_has_lines_of_native_code(lined, tmp_path):
    message = fields(gzip.decompress(exported(lined, tmp_path, "pprof").read_bytes()))
    text = [value.decode() for value in message[6]]
    functions = {one[1][0]: (text[one[2][0]], text[one[4][0]]) for one in map(fields, message[5])}
    lines = [fields(fields(one)[4][0]) for one in message[4]]
    assert {(*functions[one[1][0]], one.get(2, [0])[0]) for one in lines} == LINED
    mappings = {text[fields(one)[5][0]] for one in message[3]}
    assert mappings == {"/usr/lib/libsort.so", "/usr/lib/libc.so.6"}
