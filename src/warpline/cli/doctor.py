"""``warpline doctor``: check the installation."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from warpline import __version__, installation
from warpline.cli.startup import lazy
from warpline.cli.stdout import Facts, write_facts
from warpline.errors import CaptureError

if TYPE_CHECKING:
    import dataclasses
    import platform
    import shutil
    from importlib import metadata

    from warpline import api, native
    from warpline.capture.machine import agent, checks, cures
    from warpline.cli import native_cure
    from warpline.readers.nsys import convert
else:
    dataclasses = lazy("dataclasses")
    platform = lazy("platform")
    shutil = lazy("shutil")
    metadata = lazy("importlib.metadata")
    api = lazy("warpline.api")
    native = lazy("warpline.native")
    agent = lazy("warpline.capture.machine.agent")
    checks = lazy("warpline.capture.machine.checks")
    cures = lazy("warpline.capture.machine.cures")
    native_cure = lazy("warpline.cli.native_cure")
    convert = lazy("warpline.readers.nsys.convert")

NAME = "doctor"
HELP = "check this installation: versions, native libraries, CUDA, packages"


class _Package(NamedTuple):
    """A package that Warpline uses, by its name on the package index."""

    name: str
    purpose: str
    is_needed: bool = True
    records: bool = False  # whether it is of use without reading


_PACKAGES = (
    _Package("numpy", "all commands"),
    _Package("polars", "DataFrames: trace['kernel']", is_needed=False),
    _Package("nvtx", "warpline.annotate", is_needed=False, records=True),
    _Package("shtab", "warpline completion", is_needed=False),
    _Package("pandas", ".to_pandas()", is_needed=False),
    _Package("pyarrow", ".to_pandas()", is_needed=False),
)
_LEAST_NUMPY = 2


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "--fix",
        action="store_true",
        help="print the shell commands that would mend what is missing; none is run",
    )
    parser.add_argument(
        "-f", "--format", metavar="FORMAT", default="text", help="output format: text, json"
    )


def run(args: Namespace) -> int:
    """Print the checks; status 1 if Warpline cannot read, or warpline-agent cannot record."""
    setup = facts()
    write_facts(args, setup, mending if args.fix else text)
    return 0 if setup["is_usable"] else 1


def facts() -> dict[str, Any]:
    """Return facts about the installation and its environment."""
    reads = installation.reads()
    agent = _agent()
    packages = [_package(item) for item in _PACKAGES if reads or item.records]
    is_usable = _is_usable(packages) if reads else agent["is_available"]
    has_readers = reads and is_usable
    return {
        "package": installation.package(),
        "version": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "is_usable": is_usable,
        "native": _native(),
        "agent": agent,
        "cuda": _cuda(),
        "packages": packages,
        "terminal": _terminal(),
        "nsys": _nsys() if has_readers else [],
        "readers": _readers() if has_readers else [],
    }


def text(setup: Facts) -> str:
    """Return the facts as lines, each with its status in front."""
    name = "Warpline" if setup["package"] == "warpline" else setup["package"]
    lines = [
        f"{name} {setup['version']}, Python {setup['python']} ({setup['executable']})",
        setup["platform"],
        "",
        *_native_lines(setup["native"]),
        _agent_line(setup["agent"]),
        *_cuda_lines(setup["cuda"]),
        *(_package_line(item) for item in setup["packages"]),
        *_surroundings(setup),
        "",
        "This installation works." if setup["is_usable"] else "This installation does not work.",
    ]
    return "\n".join(lines)


def mending(setup: Facts) -> str:
    """Return a shell script that mends what is missing, with the reasons as comments."""
    lines: list[str] = []
    for name, said, fix, commands in _missing(setup):
        lines += ["", f"# {name}: {said}"]
        lines += [f"# {fix}"] if fix and not commands else []
        lines += commands
    nothing = "# Nothing is missing."
    return "\n".join([*(lines[1:] or [nothing]), "", "# These lines were printed, not run."])


def _missing(setup: Facts) -> Iterator[tuple[str, str, str | None, Sequence[str]]]:
    """Yield what is missing: its name, the details, the fix in words, and commands."""
    names = [item["name"] for item in setup["packages"] if not item["version"]]
    needed = [item["name"] for item in setup["packages"] if item["is_needed"]]
    lacking = [name for name in names if name in needed]
    if lacking or not setup["is_usable"]:
        chosen = [f"numpy>={_LEAST_NUMPY}" if name == "numpy" else name for name in needed]
        yield "packages", "required, missing or too old", None, [cures.package(*chosen)]
    core = setup["native"]
    if core["fix"]:
        yield "native core", core["reason"], core["fix"], core["commands"]
    for item in setup["cuda"]:
        if not item["is_good"] and item["fix"]:
            yield item["name"], item["text"], item["fix"], item["commands"]


def _native_lines(native: Facts) -> list[str]:
    if native["is_available"]:
        return [f"ok    native core: {native['path']} (ABI {native['abi']})"]
    lines = [f"slow  native core: {native['reason']}; recordings are read more slowly"]
    return [*lines, f"      fix: {native['fix']}"] if native["fix"] else lines


def _agent_line(agent: Facts) -> str:
    if agent["is_available"]:
        return f"ok    agent: {agent['path']} (ABI {agent['abi']})"
    return f"-     agent: {agent['reason']}; required by warpline profile"


def _cuda_lines(findings: Sequence[Facts]) -> list[str]:
    lines = []
    for item in findings:
        lines.append(f"{'ok   ' if item['is_good'] else '-    '} {item['name']}: {item['text']}")
        if item["fix"]:
            lines.append(f"      fix: {item['fix']}")
    return lines


def _package_line(item: Facts) -> str:
    if item["version"]:
        return f"ok    {item['name']} {item['version']}"
    if item["is_needed"]:
        return f"bad   {item['name']}: not installed; required for {item['purpose']}"
    return f"-     {item['name']}: not installed; optional, for {item['purpose']}"


def _surroundings(setup: Facts) -> list[str]:
    terminal = setup["terminal"]
    kind = "a terminal" if terminal["is_terminal"] else "not a terminal"
    lines = [f"ok    output: {kind}, {terminal['encoding']}, {terminal['columns']} columns"]
    readers = ", ".join(
        f"{item['name']} ({' '.join(item['extensions'])})" for item in setup["readers"]
    )
    if readers:
        lines.append(f"ok    readable formats: {readers}")
    if setup["package"] != "warpline":
        return lines
    installed = [f"{item['version']} ({item['path']})" for item in setup["nsys"]]
    if installed:
        lines.append(f"ok    nsys {', '.join(installed)}")
    else:
        lines.append("-     nsys: not found; required to read .nsys-rep files, not .sqlite files")
    return lines


def _package(item: _Package) -> dict[str, Any]:

    try:
        version = metadata.version(item.name)
    except metadata.PackageNotFoundError:
        version = None
    return {**item._asdict(), "version": version}


def _is_usable(packages: Sequence[Facts]) -> bool:
    versions = {item["name"]: item["version"] for item in packages if item["is_needed"]}
    return all(versions.values()) and int(versions["numpy"].split(".")[0]) >= _LEAST_NUMPY


def _native() -> dict[str, Any]:

    status = native.status()
    cure = None if status.available else native_cure.native_cure()
    return {
        "is_available": status.available,
        "path": None if status.path is None else str(status.path),
        "abi": status.abi,
        "reason": status.reason,
        "fix": cure.text if cure else None,
        "commands": list(cure.commands) if cure else [],
    }


def _agent() -> dict[str, Any]:

    try:
        path = agent.agent_library()
        abi = agent.agent_abi_version(path)
    except CaptureError as error:
        return {"is_available": False, "path": None, "abi": None, "reason": error.message}
    return {"is_available": True, "path": str(path), "abi": abi, "reason": None}


def _cuda() -> list[dict[str, Any]]:

    return (
        [dataclasses.asdict(item) for item in checks.findings(os.environ)]
        if sys.platform == "linux"
        else []
    )


def _terminal() -> dict[str, Any]:

    stream = sys.stdout
    return {
        "is_terminal": bool(stream and stream.isatty()),
        "encoding": getattr(stream, "encoding", None) or "unknown encoding",
        "columns": shutil.get_terminal_size().columns,
        "no_color": bool(os.environ.get("NO_COLOR")),
    }


def _nsys() -> list[dict[str, str]]:

    return [
        {"version": ".".join(map(str, item.version)), "path": str(item.path)}
        for item in reversed(convert.installed_nsys())
    ]


def _readers() -> list[dict[str, Any]]:

    return api.formats()
