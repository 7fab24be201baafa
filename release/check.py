"""Check packages that make_packages.py has built, and try them in fresh environments.

Usage: python release/check.py [--packages DIR] [--python PATH...] [--offline]

Run it with the packages of release/requirements.txt. Without --python, all supported ones on PATH
and of pyenv are tried. With --offline, only what needs no package index is.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agent_wheel
import wheel_file
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile
from make_packages import LEFT_OUT

ROOT = Path(__file__).parents[1]
MOST_INSTALLED_BYTES = 15 * 2**20
MOST_AGENT_BYTES = 3 * 2**20
NEWEST_GLIBC = (2, 28)
# The files of glibc, in its versions before and after 2.34.
_C_LIBRARY = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux-")
_PROGRAM = "import warpline\nwith warpline.annotate('work'):\n    pass\n"


def main() -> None:
    """Check everything; the exit status is 1 at the first failure."""
    parser = argparse.ArgumentParser(description="Check packages.")
    parser.add_argument("--packages", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", nargs="+", type=Path)
    parser.add_argument("--offline", action="store_true")
    args = parser.parse_args()
    packages = args.packages.resolve()
    wheels = sorted(packages.glob("*.whl"))
    (source,) = packages.glob("*.tar.gz")
    _run(sys.executable, "-m", "twine", "check", "--strict", *wheels, source)
    check_source(source)
    for wheel in wheels:
        check_wheel(wheel)
    pure = tuple(_of(wheels, "-any"))
    native = tuple(_of(wheels, f"_{platform.machine()}"))
    for python in args.python or list(_pythons()):
        with tempfile.TemporaryDirectory() as folder:
            try_python(python, Path(folder), native, pure, is_offline=args.offline)
    print("\nAll packages are as they should be.")


def check_source(source: Path) -> None:
    """Check that the source distribution has the tree, but for what is left out."""
    listed = _said("git", "-C", str(ROOT), "ls-files").splitlines()
    expected = {name for name in listed if not name.startswith(tuple(LEFT_OUT))}
    with tarfile.open(source) as archive:
        names = {item.name.partition("/")[2] for item in archive if item.isfile()}
    names.discard("PKG-INFO")
    _require(names == expected, f"{source.name} and the tree differ: {sorted(names ^ expected)}")
    print(f"{source.name}: {len(names)} files; left out: {', '.join(LEFT_OUT)}")


def check_wheel(wheel: Path) -> None:
    """Check a wheel: its sizes, libraries and list of components; print what is inside."""
    files = wheel_file.read(wheel)
    is_agent = agent_wheel.MARKER in files
    installed = sum(map(len, files.values()))
    size = wheel.stat().st_size
    print(f"\n{wheel.name}: {size / 1e6:.2f} MB, installed {installed / 1e6:.2f} MB")
    _require(installed <= MOST_INSTALLED_BYTES, "too large when installed")
    _require(not is_agent or size <= MOST_AGENT_BYTES, "too large for the agent")
    for name in sorted(files):
        if name.endswith(".so"):
            _check_library(name, files[name], wheel)
    if "linux" in wheel.stem:
        _run(sys.executable, "-m", "auditwheel", "show", wheel)
    (listed,) = (name for name in files if name.endswith(".cdx.json"))
    text = files[listed].decode()
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    _require(problem is None, f"{listed}: {problem}")
    for part in json.loads(text)["components"]:
        if part.get("scope") != "excluded":
            license_ = part["licenses"][0]
            words = license_.get("expression") or license_["license"]["name"]
            print(f"  {part['name']} {part['version']}: {words} ({part['description']})")


def _check_library(name: str, data: bytes, wheel: Path) -> None:
    """Check a library's machine and C library, and that it shows no symbol of C++."""
    library = ELFFile(io.BytesIO(data))
    machine = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}[library["e_machine"]]
    _require(wheel.stem.endswith(machine), f"{name} is for {machine}")
    symbols: Any = library.get_section_by_name(".dynsym")
    shown = [
        each.name
        for each in symbols.iter_symbols()
        if each["st_shndx"] != "SHN_UNDEF" and each.name.startswith("_Z")
    ]
    _require(not shown, f"{name} shows symbols of its C++ runtime: {shown[:3]}")
    dynamic: Any = library.get_section_by_name(".dynamic")
    needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
    extra = {each for each in needed if not each.startswith(_C_LIBRARY)}
    _require(not extra, f"{name} needs {sorted(extra)}")
    wanted: Any = library.get_section_by_name(".gnu.version_r")
    versions = [each.name for _, names in wanted.iter_versions() for each in names]
    newest = max(tuple(map(int, each.removeprefix("GLIBC_").split("."))) for each in versions)
    _require(newest <= NEWEST_GLIBC, f"{name} needs glibc {newest}")
    print(f"  {name}: {machine}, glibc {'.'.join(map(str, newest))}, {', '.join(sorted(needed))}")


def _of(wheels: list[Path], ending: str) -> Iterator[Path]:
    """Yield the wheel of Warpline and that of the agent with this ending."""
    for name in ("warpline-", "warpline_agent-"):
        yield from (
            each for each in wheels if each.name.startswith(name) and each.stem.endswith(ending)
        )


def try_python(
    python: Path,
    folder: Path,
    native: tuple[Path, ...],
    pure: tuple[Path, ...],
    *,
    is_offline: bool,
) -> None:
    """Install the agent without anything else, and Warpline, and use both.

    Args:
        python: The interpreter.
        folder: An empty one.
        native: The wheels of Warpline and the agent for this machine; none if they were not built.
        pure: Those without native libraries, which only read.
        is_offline: Whether to leave out what takes a package index.
    """
    print(f"\n== {_said(python, '--version').strip()} ({python})", flush=True)
    recording = folder / "bare.warpline"
    if native:
        bare = _environment(python, folder / "bare")
        _pip(bare, "--no-index", "--no-deps", native[1])
        _warpline(bare, "profile", "-q", "-o", recording, "--", python, "-c", "print('recorded')")
        _warpline(bare, "doctor")
    if is_offline:
        return
    full = _environment(python, folder / "full")
    _pip(full, pure[0])
    _try_reading(full, folder)
    if native:
        _pip(full, "--force-reinstall", "--no-deps", native[0])
        _try_reading(full, folder)
        _warpline(full, "stats", "-r", "process_sum", recording)
        program = folder / "program.py"
        program.write_text(_PROGRAM, encoding="utf-8")
        whole = folder / "full.warpline"
        _warpline(full, "profile", "-o", whole, "--", full, program)
        found = _said(full, "-m", "warpline", "stats", "-r", "nvtx_sum", whole)
        _require("work" in found, "the range is not in the recording")
    _pip(full, "--no-deps", (native or pure)[1])
    words = [str(full), "-I", "-m", "warpline", "--version"]
    both = subprocess.run(words, capture_output=True, check=False, env=_plain())
    _require(both.returncode == 1, "both packages at once are not refused")


def _try_reading(python: Path, folder: Path) -> None:
    _warpline(python, "doctor")
    _require(
        "# Findings" in _said(python, "-m", "warpline", "docs", "findings"), "no documentation"
    )
    with contextlib.chdir(folder):  # where it writes its report
        _warpline(python, "demo")


def _environment(python: Path, folder: Path) -> Path:
    _run(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def _pip(python: Path, *words: str | Path) -> None:
    own: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    _run(*own, "--disable-pip-version-check", *words)


def _warpline(python: Path, *words: str | Path) -> None:
    _run(python, "-I", "-m", "warpline", *words)


def _pythons() -> Iterator[Path]:
    """Yield the supported Pythons of this machine, one per version."""
    found = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False)  # noqa: S607
    homes = sorted(Path(found.stdout.strip(), "versions").glob("3.1[1-9]*")) if found.stdout else []
    folders = [*(home / "bin" for home in homes), *map(Path, os.environ["PATH"].split(os.pathsep))]
    seen = set()
    for minor in range(11, 20):
        for folder in folders:
            path = folder / f"python3.{minor}"
            if minor not in seen and path.exists() and "shims" not in path.parts:
                seen.add(minor)
                yield path


def _said(*words: str | Path) -> str:
    found = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=True, env=_plain()
    )
    return found.stdout


def _run(*words: str | Path) -> None:
    subprocess.run([*map(str, words)], check=True, env=_plain())


def _plain() -> dict[str, str]:
    """Return the environment without what would make a package use other files."""
    hidden = ("PYTHONPATH", "WARPLINE_AGENT", "WARPLINE_CORE")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _require(is_so: object, otherwise: str) -> None:
    if not is_so:
        sys.exit(f"error: {otherwise}")


if __name__ == "__main__":
    main()
