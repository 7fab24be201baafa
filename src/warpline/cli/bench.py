"""``warpline bench``: what the GPU of this machine reaches in GEMMs, copies and kernel launches."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from warpline.cli import talk
from warpline.cli.arguments import STDOUT, add_force
from warpline.cli.output import Output
from warpline.cli.startup import lazy
from warpline.errors import UsageError
from warpline.files import cannot_write, check_output, complete_file
from warpline.lazy import lazy_pattern

if TYPE_CHECKING:
    import datetime as dt
    import json

    from warpline.bench import backends, copies, gemms, launches, process
    from warpline.capture.machine import driver
    from warpline.documents import bench as documents
    from warpline.hardware import measured
    from warpline.render import Options
    from warpline.result import Document
else:
    dt = lazy("datetime")
    json = lazy("json")
    backends = lazy("warpline.bench.backends")
    copies = lazy("warpline.bench.copies")
    gemms = lazy("warpline.bench.gemms")
    launches = lazy("warpline.bench.launches")
    process = lazy("warpline.bench.process")
    driver = lazy("warpline.capture.machine.driver")
    documents = lazy("warpline.documents.bench")
    measured = lazy("warpline.hardware.measured")

NAME = "bench"
HELP = "measure what this GPU reaches in GEMMs, copies and kernel launches"

_GEMM_SIZES, _DTYPES = "8,64,256,1024,4096", "bf16,tf32,fp32,fp8"
_COPY_SIZES = "64KiB,1MiB,16MiB,256MiB"
_KERNELS = "1,10,100,1000"
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SIZE = lazy_pattern(r"([0-9]{1,15})([KMGkmg]?)(?:i?[bB])?")
_LARGEST = 2**31 - 1  # of a matrix, by cuBLAS
_MOST_KERNELS = 100_000

Points = Callable[[Namespace], Sequence[Mapping[str, Any]]]


class Part:
    """A benchmark, as a part of the command.

    Args:
        word: Its name.
        text: What it measures, for the help.
        declare: Declares its own options.
        points: Returns what to measure.
        order: Backends to try.
    """

    def __init__(
        self,
        word: str,
        text: str,
        declare: Callable[[ArgumentParser], None],
        points: Points,
        order: Sequence[str],
    ) -> None:
        self.NAME = f"{NAME} {word}"
        self.HELP = text
        self._word, self._declare, self._points, self._order = word, declare, points, order

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        self._declare(parser)
        parser.add_argument(
            "--device", type=int, default=0, metavar="INDEX", help="GPU to measure (default: 0)"
        )
        listed = ", ".join(self._order)
        first = f"the first that works of {listed}" if len(self._order) > 1 else listed
        parser.add_argument(
            "--backend",
            metavar="NAME",
            help=f"library that does the work: torch, cupy, or ctypes, the CUDA driver and cuBLAS"
            f" (default: {first})",
        )
        group = parser.add_argument_group("output")
        group.add_argument(
            "-f", "--format", metavar="FORMAT", help="output format: text, csv, json, markdown"
        )
        for name in ("json", "csv"):
            group.add_argument(
                f"--{name}",
                dest="format",
                action="store_const",
                const=name,
                help=f"as --format {name}",
            )
        group.add_argument(
            "-o",
            "--output",
            dest="saved",
            metavar="FILE.json",
            help="also save the results, as measured ceilings of this GPU",
        )
        group.add_argument(
            "--save",
            action="store_true",
            help="also keep the results where warpline kernels finds them, as measured ceilings of"
            " this GPU model",
        )
        add_force(group)
        group.add_argument("-q", "--quiet", action="store_true", help="print only data and errors")

    def run(self, args: Namespace) -> int:
        """Measure and print the rows; status 1 if none could be measured."""
        args.output = STDOUT
        output = Output(args, {"json": _write_json})
        points = self._points(args)
        order = [_backend(args.backend)] if args.backend else self._order
        if args.device < 0:
            raise UsageError(f"--device {args.device}: must be 0 or more")
        if args.saved is not None:
            _check_saved(args)
        found = process.measure(self._word, points, order, args.device)
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        facts = documents.facts(found, driver.driver_version(), now)
        output.write(documents.document(facts))
        if args.saved is not None:
            _save(Path(args.saved), facts)
            if not args.quiet:
                talk.note(f"wrote {args.saved}")
        is_measured = any(row["reason"] is None for row in facts["rows"])
        if args.save and is_measured:
            path = _keep(facts)
            if not args.quiet:
                talk.note(f"wrote {path}, which warpline kernels reads")
        return int(not is_measured)


def _write_json(document: Document, out: TextIO, options: Options) -> None:
    out.write(_as_json(document.meta))


def _as_json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=2, allow_nan=False) + "\n"


def _check_saved(args: Namespace) -> None:
    if Path(args.saved).suffix.lower() != ".json":
        raise UsageError(
            f"-o {args.saved}: results are saved as JSON",
            hint="use -o FILE.json, or redirect standard output",
        )
    check_output(Path(args.saved), overwrite=args.force_overwrite)


def _save(path: Path, facts: Mapping[str, Any]) -> None:
    with (
        complete_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="\n") as out,
    ):
        out.write(_as_json(facts))


def _keep(facts: Mapping[str, Any]) -> Path:
    """Save results as those of the GPU model, in place of earlier ones; return the file."""
    path = measured.saved_file(os.environ, facts["gpu"]["name"], facts["benchmark"])
    if path is None:
        raise UsageError("--save: no home directory", hint="set XDG_DATA_HOME, or use -o FILE.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    _save(path, facts)
    return path


def _declare_gemm(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sizes",
        default=_GEMM_SIZES,
        metavar="N[,...]",
        help=f"sizes of square matrices, or MxNxK (default: {_GEMM_SIZES})",
    )
    parser.add_argument(
        "--dtype",
        default=_DTYPES,
        metavar="TYPE[,...]",
        help=f"types: fp64, fp32, tf32, fp16, bf16, fp8 (default: {_DTYPES})",
    )


def _gemm_points(args: Namespace) -> Sequence[Mapping[str, Any]]:
    shapes = [_shape(word) for word in _words(args.sizes)]
    return gemms.points(shapes, _chosen("--dtype", args.dtype, backends.DTYPES))


def _declare_copy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sizes",
        default=_COPY_SIZES,
        metavar="SIZE[,...]",
        help=f"bytes of a copy, with K, M or G for powers of 1024 (default: {_COPY_SIZES})",
    )
    parser.add_argument(
        "--kinds",
        metavar="KIND[,...]",
        help="h2d-pinned, h2d-pageable, d2h-pinned, d2h-pageable, d2d, p2p (to each other GPU;"
        " default: all)",
    )


def _copy_points(args: Namespace) -> Sequence[Mapping[str, Any]]:
    kinds = _chosen("--kinds", args.kinds, backends.KINDS) if args.kinds else backends.KINDS
    return copies.points([_bytes(word) for word in _words(args.sizes)], kinds)


def _declare_launch(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--graph-kernels",
        default=_KERNELS,
        metavar="N[,...]",
        help=f"kernels of a CUDA graph (default: {_KERNELS})",
    )


def _launch_points(args: Namespace) -> Sequence[Mapping[str, Any]]:
    return launches.points(
        [_whole("--graph-kernels", word, _MOST_KERNELS) for word in _words(args.graph_kernels)]
    )


def _words(text: str) -> list[str]:
    """Return the distinct words of a list with commas."""
    return list(dict.fromkeys(word.strip() for word in text.split(",")))


def _chosen(option: str, text: str, known: Sequence[str]) -> list[str]:
    words = [word.lower() for word in _words(text)]
    for word in words:
        if word not in known:
            raise UsageError(f"{option}: unknown {word!r}", hint=f"use {', '.join(known)}")
    return words


def _backend(word: str) -> str:
    return _chosen("--backend", word, backends.NAMES)[0]


def _shape(word: str) -> tuple[int, int, int]:
    sizes = [_whole("--sizes", part, _LARGEST) for part in word.lower().split("x")]
    if len(sizes) == 1:
        return sizes[0], sizes[0], sizes[0]
    if len(sizes) != 3:
        raise UsageError(f"--sizes: {word!r} is not a size", hint="use 4096 or 4096x1024x512")
    return sizes[0], sizes[1], sizes[2]


def _whole(option: str, word: str, largest: int) -> int:
    number = int(word) if word.isascii() and word.isdecimal() and len(word) < 16 else 0
    if not 1 <= number <= largest:
        raise UsageError(f"{option}: {word!r} is not a whole number from 1 to {largest:,}")
    return number


def _bytes(word: str) -> int:
    found = _SIZE.fullmatch(word)
    size = int(found[1]) * _FACTORS[found[2].upper()] if found else 0
    if not size:
        raise UsageError(f"--sizes: {word!r} is not a size", hint="use 65536, 64KiB or 256MiB")
    return size


PARTS = (
    Part(
        "gemm",
        "measure TFLOP/s of GEMMs, and below which size launches take longer than the GPU",
        _declare_gemm,
        _gemm_points,
        ("torch", "cupy", "ctypes"),
    ),
    Part("copy", "measure GB/s of copies", _declare_copy, _copy_points, ("ctypes",)),
    Part(
        "launch",
        "measure the time of kernel launches: in a row, synchronized, and in CUDA graphs",
        _declare_launch,
        _launch_points,
        ("ctypes",),
    ),
)


def part(words: Sequence[str]) -> Part | None:
    """Return the benchmark that the words name, if any."""
    return next((item for item in PARTS if words[:1] == [item.NAME.split()[1]]), None)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command without a benchmark."""
    parser.usage = f"{parser.prog} gemm|copy|launch [OPTIONS]"
    parser.add_argument("benchmark", nargs="?", metavar="gemm|copy|launch", help="what to measure")


def run(args: Namespace) -> int:
    """Raise a UsageError: a benchmark is missing."""
    said = "missing benchmark" if args.benchmark is None else f"no benchmark {args.benchmark!r}"
    raise UsageError(said, hint=f"use warpline {NAME} gemm, copy or launch")
