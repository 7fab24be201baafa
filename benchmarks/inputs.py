"""Recordings of any size for benchmarks, made once and kept in a directory."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import make_kineto
import make_nsys
from finishing import write_session
from peers import warpline


@dataclass(frozen=True)
class Inputs:
    """The directory; each method returns the path of an input of the given size."""

    folder: Path

    def nsys(self, kernels: int) -> Path:
        """Return an nsys export."""
        return self._made(f"nsys_{kernels}.sqlite", lambda path: make_nsys.make(kernels, path))

    def kineto(self, kernels: int) -> Path:
        """Return a trace of PyTorch's profiler with the same kernels."""
        return self._made(f"kineto_{kernels}.json", lambda path: make_kineto.make(kernels, path))

    def recording(self, kernels: int) -> Path:
        """Return the nsys export as a recording of Warpline."""

        def make(path: Path) -> None:
            words = ("export", "-t", "warpline", "-f", "true", "-o", str(path))
            command = warpline(*words, str(self.nsys(kernels)))
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        return self._made(f"recording_{kernels}.warpline", make)

    def session(self, ranges: int) -> Path:
        """Return the directory of a raw recording."""

        def make(path: Path) -> None:
            path.mkdir(exist_ok=True)
            write_session(path, ranges)

        return self._made(f"session_{ranges}.raw", make)

    def _made(self, name: str, make: Callable[[Path], None]) -> Path:
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_stem(f"{path.stem}_unfinished")
            make(partial)
            partial.rename(path)
        return path


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the directory; by default a new temporary one."""
    parser.add_argument("--folder", type=Path, help="directory for the recordings, kept")


def inputs_of(options: argparse.Namespace) -> Inputs:
    """Return the inputs of a command line."""
    return Inputs(options.folder or Path(tempfile.mkdtemp()))
