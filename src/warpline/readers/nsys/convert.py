"""Reports (.nsys-rep, .qdrep): an installed nsys exports them to a private directory.

Only nsys reads the report format, and only reports that are not newer than itself.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from warpline import progress
from warpline.errors import InputError, UnsupportedVersionError
from warpline.readers.nsys.database import Database
from warpline.readers.nsys.sniff import REPORT_MAGIC
from warpline.readers.nsys.source import NsysSource

EXPORT_TIMEOUT_S = 1800  # reports of gigabytes take minutes
_QUESTION_TIMEOUT_S = 30

# Where NVIDIA's packages install it. Nsight Compute includes a complete nsys.
_PLACES = (
    "opt/nvidia/nsight-systems*/*/bin/nsys",
    "opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "opt/nvidia/nsight-systems*/bin/nsys",
    "opt/nvidia/nsight-systems*/target-linux-*/nsys",
    "opt/nvidia/nsight-compute*/*/host/target-linux-*/nsys",
    "usr/local/cuda*/bin/nsys",
    "usr/local/cuda*/nsight-systems*/bin/nsys",
    "usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
    "usr/lib/nsight-systems/bin/nsys",
)

Version = tuple[int, ...]


@dataclass(frozen=True, order=True)
class Nsys:
    """An installed nsys; later versions are greater."""

    version: Version
    path: Path


def read_report(path: Path) -> NsysSource:
    """Export a report to a private directory and open it. The source deletes the directory.

    Raises:
        InputError: No nsys is installed, or nsys cannot export the report.
        UnsupportedVersionError: The report is newer than all installed nsys versions.
    """
    installed = installed_nsys()
    if not installed:
        raise InputError(
            f"{path}: reading a report requires nsys, which is not installed",
            hint=f"on a machine with nsys, run: {_by_hand(path)}, then open the .sqlite file",
        )
    folder = tempfile.TemporaryDirectory(prefix="warpline-")
    try:
        target = Path(folder.name) / "export.sqlite"
        with progress.task(f"Exporting {path.name} with nsys"):
            _export(installed[-1], path, target)
        database = Database.open(target)
        source = NsysSource(database, shown_as=path, format_name="nsys-rep")
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(source, _discard, database, folder)
    return source


def installed_nsys(root: Path = Path("/")) -> list[Nsys]:
    """Return every nsys on PATH and in the usual places below `root`, oldest first."""
    on_path = shutil.which("nsys")
    paths = [Path(on_path)] if on_path else []
    paths += [path for place in _PLACES for path in root.glob(place) if os.access(path, os.X_OK)]
    by_file = {path.resolve(): path for path in reversed(paths) if path.is_file()}
    versions = ((_version_of(path), path) for path in by_file.values())
    return sorted(Nsys(version, path) for version, path in versions if version)


def _version_of(program: Path) -> Version:
    """Return the version that a program reports, () if it does not run."""
    try:
        said = _run([str(program), "--version"], _QUESTION_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"version (\d+(?:\.\d+)+)", said.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _export(nsys: Nsys, report: Path, target: Path) -> None:
    command = [str(nsys.path), "export", "--type=sqlite", f"--output={target}"]
    command += ["--force-overwrite=true", "--quiet=true", *_payload_options(nsys)]
    try:
        done = _run([*command, str(report.absolute())], EXPORT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{report}: {nsys.path} export timed out after {EXPORT_TIMEOUT_S} s",
            hint=f"export it manually: {_by_hand(report)}",
        ) from None
    except OSError as error:
        raise InputError(f"{report}: cannot run {nsys.path}: {error.strerror}") from error
    if done.returncode or not target.exists():
        raise _failure(nsys, report, done.stderr + done.stdout)


def _payload_options(nsys: Nsys) -> list[str]:
    """Return the option that exports NVTX payloads, if this version has one."""
    try:
        described = _run([str(nsys.path), "export", "--help"], _QUESTION_TIMEOUT_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    known = (name for name in ("--include-blobs", "--include-json") if name in described)
    return [f"{name}=true" for name in known][:1]


def _failure(nsys: Nsys, report: Path, said: str) -> InputError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = next((line for line in lines if "error" in line.lower()), " ".join(lines[:1]))
    written = report_version(report)
    ours = ".".join(map(str, nsys.version[:3]))
    if written > nsys.version or "newer than your current version" in said:
        theirs = ".".join(map(str, written[:3])) or "a newer version"
        return UnsupportedVersionError(
            f"{report}: written by nsys {theirs}, but the newest nsys installed is {ours}",
            hint=f"update Nsight Systems, or run on another machine: {_by_hand(report)}",
        )
    message = f"{report}: nsys {ours} cannot export it: {reason or 'no reason given'}"
    return InputError(message, hint="check that nsys finished writing the report, or profile again")


def _by_hand(report: Path) -> str:
    """Return the command that exports a report."""
    return f"nsys export --type sqlite --include-blobs=true {shlex.quote(report.name)}"


def report_version(report: Path) -> Version:
    """Return the version in a report's first bytes, () if there is none."""
    with report.open("rb") as file:
        head = file.read(128)
    match = re.match(rb" (\d+(?:@\d+)+)", head.removeprefix(REPORT_MAGIC))
    return tuple(int(part) for part in match[1].split(b"@")) if match else ()


def _run(command: list[str], timeout_s: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def _discard(database: Database, folder: tempfile.TemporaryDirectory[str]) -> None:
    database.close()  # first: some systems remove no open file
    folder.cleanup()
