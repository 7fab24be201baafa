"""Source lines of native frames: every version of line tables, compressed, in another file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import hot_programs

import warpline
from warpline.capture.finishing.compressed_sections import ZLIB, ZSTD, expanded
from warpline.trace import Trace

BUDGET_MS = 200
Line = tuple[int, str]  # and its file


def recorded(program: Path, folder: Path, *words: str) -> Trace:
    """Sample a program by perf events, or by timers where these are forbidden."""
    output = folder / "run.warpline"
    command = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", "-t", "none"]
    command += ["--gpu-health=off", "-s", "process-tree", "-o", str(output), str(program)]
    done = subprocess.run(
        [*command, str(BUDGET_MS), *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (3, "worked\n"), done.stderr
    return warpline.open(output)


def lines_of_stacks(trace: Trace) -> list[dict[str, Line]]:
    """Return the line of each function, for each sample's stack."""
    frames = trace.columns("frame", "symbol_id", "file_id", "line")
    names = trace.strings.texts(frames["symbol_id"].values.tolist())
    files = [
        trace.strings.texts([file])[0] if file >= 0 else ""
        for file in frames["file_id"].filled(-1).tolist()
    ]
    lines = frames["line"].filled(0).tolist()
    stacks = trace.columns("stack", "parent_id", "frame_id")
    parents = stacks["parent_id"].filled(-1).tolist()
    found: list[dict[str, Line]] = []
    for parent, frame in zip(parents, stacks["frame_id"].values.tolist(), strict=True):
        outer = found[parent] if parent >= 0 else {}
        found.append({**outer, names[frame]: (lines[frame], files[frame])})
    taken = trace.columns("cpu_sample", "stack_id")["stack_id"].filled(-1).tolist()
    return [found[stack] for stack in taken if stack >= 0]


def line_with(source: Path, text: str) -> int:
    numbers = [n for n, line in enumerate(source.read_text().splitlines(), 1) if text in line]
    assert len(numbers) == 1
    return numbers[0]


def check_lines(trace: Trace, source: Path) -> None:
    """Check the line of each planted function, and of each of the calls that led to it."""
    calls = {
        "hot_seventy": "hot_seventy(7",
        "hot_twenty": "hot_twenty(2",
        "hot_ten": "hot_ten(turns",
    }
    seen = 0
    for lines in lines_of_stacks(trace):
        for function, call in calls.items():
            if function not in lines or "caller" not in lines:
                continue
            seen += 1
            assert lines[function][0] == line_with(source, f"HOT({function})")
            assert lines["caller"][0] == line_with(source, call)
            assert lines["work"][0] == line_with(source, "caller(10000 +")
            assert Path(lines[function][1]).name == source.name
    assert seen > 20


def keep_lines_apart(program: Path) -> None:
    """Move what debuggers need to a file of its own, named in the program."""
    debug = program.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", program], check=True)
    link = f"--add-gnu-debuglink={debug.name}"
    subprocess.run(["objcopy", link, program.name], check=True, cwd=program.parent)


@pytest.mark.parametrize(
    "options",
    [("-gdwarf-2",), ("-gdwarf-3",), ("-gdwarf-4",), ("-gdwarf-5",), ("-g", "-gz=zlib")],
    ids=" ".join,
)
@pytest.mark.usefixtures("agent")
def test_lines_are_those_of_the_source(options: Sequence[str], tmp_path: Path) -> None:
    program = hot_programs.compiled(tmp_path, options=options)
    check_lines(recorded(program, tmp_path, "work"), tmp_path / "hot.c")


@pytest.mark.parametrize("build_id", ["sha1", "none"])
@pytest.mark.usefixtures("agent")
def test_lines_in_a_file_of_their_own(build_id: str, tmp_path: Path) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("no objcopy")
    options = ("-g", f"-Wl,--build-id={build_id}")
    program = hot_programs.compiled(tmp_path, options=options)
    keep_lines_apart(program)
    check_lines(recorded(program, tmp_path, "work"), tmp_path / "hot.c")


@pytest.mark.usefixtures("agent")
def test_a_file_of_another_build_has_no_lines(tmp_path: Path) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("no objcopy")
    program = hot_programs.compiled(tmp_path, options=("-g", "-Wl,--build-id=none"))
    keep_lines_apart(program)
    with program.with_suffix(".debug").open("ab") as debug:
        debug.write(b"\0")
    for lines in lines_of_stacks(recorded(program, tmp_path, "work")):
        assert lines.get("hot_seventy", (0, "")) == (0, "")


@pytest.mark.usefixtures("agent")
def test_tables_show_lines_of_methods(tmp_path: Path) -> None:
    program = hot_programs.compiled(tmp_path, is_cpp=True, options=("-g",))
    trace = recorded(program, tmp_path)
    source = tmp_path / "hot.cpp"
    rows = warpline.stats(trace, "cpu_samples_sum:lines").to_polars().rows(named=True)
    loop = line_with(source, "Share * turns")
    shares = {
        row["function"]: row["self_ratio"]
        for row in rows
        if (row["file"], row["line"], row["module"]) == (str(source), loop, str(program))
    }
    assert set(hot_programs.CPP_SHARES) <= set(shares)
    assert sum(shares[name] for name in hot_programs.CPP_SHARES) > 0.5
    functions = warpline.stats(trace, "cpu_samples_sum").to_polars().rows(named=True)
    longest = next(row for row in functions if row["function"] in hot_programs.CPP_SHARES)
    assert (longest["file"], longest["line"]) == (str(source), loop)


def test_sections_expand_to_what_their_header_says() -> None:
    content = os.urandom(1000) * 20
    packed = zlib.compress(content)
    assert expanded(ZLIB, packed, len(content)) == content
    assert expanded(ZLIB, packed, len(content) - 1) is None
    assert expanded(ZLIB, packed, len(content) + 1) is None
    assert expanded(ZLIB, packed[:50], len(content)) is None
    assert expanded(ZLIB, b"no stream", 9) is None
    assert expanded(ZSTD, b"no stream", 9) is None
    assert expanded(77, packed, len(content)) is None


_INLINED = """
#include <cstdio>
#include <cstdlib>
#include <ctime>

static volatile unsigned long sink;

struct Mixer {
  unsigned long state;
  [[gnu::always_inline]] void mix() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;  // mixed
  }
};

template <class Work>
[[gnu::always_inline]] inline void repeat(long turns, Work work) {
  for (long i = 0; i < turns; ++i) work();  // turned
}

[[gnu::noinline]] void crunch(long turns) {
  Mixer mixer{1};
  repeat(turns, [&] { mixer.mix(); });  // repeated, called
  sink = sink + mixer.state;
}

static double used_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int main(int, char **words) {
  while (used_ms() < std::atof(words[1])) crunch(100000);
  std::puts("worked");
  return 3;
}
"""


@pytest.mark.parametrize(
    "options",
    [("-gdwarf-3",), ("-gdwarf-4",), ("-gdwarf-5",), ("-g", "-gz=zlib")],
    ids=" ".join,
)
@pytest.mark.usefixtures("agent")
def test_inlined_functions_have_frames(options: Sequence[str], tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, program = tmp_path / "inlined.cpp", tmp_path / "inlined"
    source.write_text(_INLINED)
    subprocess.run([compiler, "-O2", *options, str(source), "-o", str(program)], check=True)
    line = {text: line_with(source, text) for text in ("// mixed", "// turned", "// repeated")}
    lines = [line["// repeated"], line["// turned"], line["// repeated"], line["// mixed"]]
    chains: Counter[int] = Counter()
    for stack in lines_of_stacks(recorded(program, tmp_path)):
        names = [name for name in stack if "crunch" in name or name.endswith(" (inlined)")]
        if "crunch(long)" not in names:
            continue
        chains[len(names)] += 1
        if len(names) == len(lines):
            assert (names[0], names[3]) == ("crunch(long)", "Mixer::mix() (inlined)")
            assert "repeat" in names[1]
            assert [stack[name] for name in names] == [(line, str(source)) for line in lines]
    # Other samples are of the loop itself, or of the function's beginning and end.
    assert chains[len(lines)] > 0.5 * chains.total() > 10, chains
