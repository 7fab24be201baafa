"""``warpline demo``: real recordings of a program before and after a fix."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warpline.cli.arguments import add_force
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import WarplineError
from warpline.files import check_output, complete_file
from warpline.units import format_bytes, format_ns, format_rate, format_ratio

if TYPE_CHECKING:
    import lzma
    import shlex
    import tempfile
    from importlib import resources
    from importlib.resources.abc import Traversable

    from warpline import api, render
    from warpline.derived.work import busy
    from warpline.ops import interval
    from warpline.render.diagnosis import text
    from warpline.result import Result
    from warpline.schema import labels
    from warpline.trace import Trace
    from warpline.viewer import report
else:
    lzma = lazy("lzma")
    shlex = lazy("shlex")
    tempfile = lazy("tempfile")
    resources = lazy("importlib.resources")
    api = lazy("warpline.api")
    render = lazy("warpline.render")
    busy = lazy("warpline.derived.work.busy")
    interval = lazy("warpline.ops.interval")
    text = lazy("warpline.render.diagnosis.text")
    labels = lazy("warpline.schema.labels")
    report = lazy("warpline.viewer.report")

NAME = "demo"
HELP = "analyze two small recordings that come with Warpline"

_FILES = ("pageable_h2d.bad.sqlite", "pageable_h2d.fixed.sqlite")
_EXAMPLES = "examples"  # a directory of more recordings, some of them compressed
_PACKED = ".xz"
_DIRECTION = "Host-to-Device"
_PAGE = 'The report of "bad", with timeline, findings and tables,'
_PAGE_NAME = "warpline-demo"
_INTRODUCTION = """\
Warpline comes with two recordings of a PyTorch program on an NVIDIA H200: six training steps,
recorded with Nsight Systems. "bad" copies each batch to the GPU from pageable memory. "fixed"
copies it from pinned memory on a separate stream.

`warpline analyze FILE` prints for "bad":

"""
_COMPARISON = """
Comparison, mean per step:
"""
_EXPLANATION = """
From pageable memory, the driver copies through a staging buffer. The copy is slow and blocks the
CPU, so no kernel runs in the meantime. From pinned memory, the GPU copies directly, several times
as fast, and overlaps the copy with the kernels of the previous step. The kernels are the same.

"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "--copy", metavar="DIR", help="copy all example recordings to this directory and exit"
    )
    add_force(parser)


def run(args: Namespace) -> int:
    """Analyze the recordings, or copy them."""
    with _recordings() as paths:
        if args.copy is not None:
            return write_text(
                _commands(_copy(paths, Path(args.copy), overwrite=args.force_overwrite))
            )
        return _show(paths)


@contextlib.contextmanager
def _recordings() -> Iterator[list[Path]]:
    """Yield the recordings as files, even if the package is in an archive."""
    folder = resources.files("warpline") / "data"
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(resources.as_file(folder / name)) for name in _FILES]


def _copy(paths: list[Path], folder: Path, *, overwrite: bool) -> list[Path]:
    """Copy the recordings and those of the tutorials, and return the copies of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {path.name: path.read_bytes for path in paths}
    for item in (resources.files("warpline") / "data" / _EXAMPLES).iterdir():
        is_packed = item.name.endswith(_PACKED)
        read = partial(_unpacked, item) if is_packed else item.read_bytes
        files[item.name.removesuffix(_PACKED)] = read
    for name in files:
        check_output(folder / name, overwrite=overwrite)
    for name, read in files.items():
        with complete_file(folder / name) as unfinished:
            unfinished.write_bytes(read())
    return [folder / path.name for path in paths]


def _unpacked(item: Traversable) -> bytes:
    return lzma.decompress(item.read_bytes())


def _show(paths: list[Path]) -> int:

    traces = [api.open(path) for path in paths]
    write_text(_INTRODUCTION)
    text.render(api.analyze(traces[0]), sys.stdout, render.detect_options(sys.stdout, os.environ))
    write_text(f"{_COMPARISON}\n{_side_by_side(traces)}\n{_EXPLANATION}")
    write_text(_commands(paths))
    sys.stdout.flush()
    return write_text(_page(traces[0]))


def _page(trace: Trace) -> str:
    """Write the report of a recording and return the text about it."""
    pieces = api.make_report(trace).pieces
    for folder in (Path.cwd, _new_folder):  # the first may be read-only
        with contextlib.suppress(OSError, WarplineError):
            path = _written(folder(), pieces)
            return (
                f"\n{_PAGE} is one file of {format_bytes(path.stat().st_size)}:\n"
                f"  {path}\n"
                f"Open it in a browser: {path.as_uri()}"
            )
    return f"\n{_PAGE} cannot be written here or to the directory for temporary files."


def _new_folder() -> Path:

    return Path(tempfile.mkdtemp(prefix="warpline-"))


def _written(folder: Path, pieces: list[str]) -> Path:
    """Write the report to a free name and return it; the same report is not written twice."""
    content = "".join(pieces).encode()
    for number in itertools.count(1):
        path = folder / (f"{_PAGE_NAME}-{number}.html" if number > 1 else f"{_PAGE_NAME}.html")
        if not path.exists():
            report.write(path, pieces)
            break
        if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
            break
    return path


class _Figures(NamedTuple):
    """Measurements of a recording, per step."""

    gpu_ns: float
    copy_ns: float
    copy_bytes_per_s: float
    overlap_ratio: float
    kernel_ns: float
    waiting_ns: float


_LINES: tuple[tuple[str, Callable[[_Figures], str]], ...] = (
    ("GPU, from first to last operation", lambda item: format_ns(item.gpu_ns)),
    ("host-to-device copies", lambda item: format_ns(item.copy_ns)),
    ("  bandwidth", lambda item: format_rate(item.copy_bytes_per_s)),
    ("  overlapped with kernels", lambda item: format_ratio(item.overlap_ratio)),
    ("kernels", lambda item: format_ns(item.kernel_ns)),
    ("CPU in cudaMemcpyAsync", lambda item: format_ns(item.waiting_ns)),
)


def _side_by_side(traces: list[Trace]) -> str:
    figures = [_measure(trace) for trace in traces]
    rows = [("", "bad", "fixed"), *((label, *map(show, figures)) for label, show in _LINES)]
    return "\n".join(f"  {label:44}{bad:>12}{fixed:>12}" for label, bad, fixed in rows)


def _measure(trace: Trace) -> _Figures:

    ranges = api.stats(trace, "nvtx_pushpop_sum")
    steps = sum(str(name).startswith("step_") for name in ranges.columns["name"].to_list())
    work, kernels = busy.device_work(trace), busy.device_work(trace, "kernel")
    copies = trace.columns("memcpy", "start_ns", "end_ns", "kind")
    rows = [labels.COPY_KINDS[kind] == _DIRECTION for kind in copies["kind"].values.tolist()]
    copied = copies["start_ns"].values[rows], copies["end_ns"].values[rows]
    copy_ns = interval.covered(*copied)
    beside_ns = interval.total(*interval.intersect(copied, (kernels.start_ns, kernels.end_ns)))
    rates = api.stats(trace, "copy_sum")
    calls = api.stats(trace, "cuda_api_sum")
    return _Figures(
        gpu_ns=int(work.end_ns.max() - work.start_ns.min()) / steps,
        copy_ns=copy_ns / steps,
        copy_bytes_per_s=_value(rates, "direction", _DIRECTION, "bandwidth_bytes_per_s"),
        overlap_ratio=beside_ns / copy_ns,
        kernel_ns=interval.covered(kernels.start_ns, kernels.end_ns) / steps,
        waiting_ns=_value(calls, "name", "cudaMemcpyAsync", "total_ns") / steps,
    )


def _value(table: Result, key: str, row: str, column: str) -> float:
    """Return one number of a table, from the row whose `key` is `row`."""
    place = table.columns[key].to_list().index(row)
    number: float = table.rows()[place][list(table.columns).index(column)]
    return number


def _commands(paths: list[Path]) -> str:
    """Return commands to try next, quoted for a shell."""
    bad, fixed = (shlex.quote(str(path)) for path in paths)
    lines = (
        f"warpline analyze {fixed}",
        f"warpline analyze --checklist {bad}",
        f"warpline {bad}",
        f"warpline stats {bad}",
        f"warpline stats -r cuda_gpu_trace --filter-nvtx step_2 {bad}",
        f"warpline stats -r cuda_api_sum --exclude step_0 --format csv {fixed}",
        "warpline list",
    )
    return "\n".join(["Try:", *(f"  {line}" for line in lines)])
