"""Build all packages into a directory: the source distribution, and wheels made from it.

Usage: python release/make_packages.py [--output DIR] [--machines x86_64,aarch64] [--site DIR]

Run it with the packages of release/requirements.txt. For each machine there are a wheel of Warpline
and one of warpline-agent; both exist without native libraries, too, for other systems. Those of
Warpline have the documentation site, which `make site` builds. That of pytest-warpline is for all.
The time in the files is that of the last commit, or $SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import agent_wheel
import components
import site_archive
import wheel_file

ROOT = Path(__file__).parents[1]
MACHINES = ("x86_64", "aarch64")
POLICY = "manylinux_2_28"  # that of zig.cmake
# What of the tree the source distribution lacks.
LEFT_OUT = {
    "tests/": "6 MB of sample recordings; tests are run in the repository",
    "benchmarks/": "as tests",
    ".ci/": "checks of the repository",
    "Makefile": "as .ci",
    "action/": "the site that hosts the repository takes it from there",
    ".gitignore": "for git",
}
# It knows the policies of all machines, and accepts names of those of its own only.
_AUDITWHEEL = (
    "import platform; platform.machine = {!r}.lower; import auditwheel.main as a; a.main()"
)


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description="Build all packages.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--machines", default=",".join(MACHINES), help="(default: %(default)s)")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site")
    args = parser.parse_args()
    if not (args.site / "index.html").is_file():
        sys.exit(f"error: {args.site} is no documentation site: run make site")
    args.output.mkdir(parents=True, exist_ok=True)
    for old in (*args.output.glob("*warpline*.whl"), *args.output.glob("warpline*.tar.gz")):
        old.unlink()
    build(args.output, [each for each in args.machines.split(",") if each], args.site)


def build(output: Path, machines: list[str], site: Path) -> None:
    """Build the source distribution, and from it the wheels.

    Args:
        output: Where the packages are written.
        machines: For which there are native libraries; there are always wheels without.
        site: The folder of the documentation site.
    """
    epoch_s = _epoch_s()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory(prefix="warpline-build-") as scratch:
        _run("build", "--no-isolation", "--sdist", "--outdir", output, ROOT, env=environment)
        (source,) = output.glob("warpline-*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(scratch)  # noqa: S202 - just made here
        tree = Path(scratch, source.name.removesuffix(".tar.gz"))
        for machine in [*machines, ""]:
            raw = _wheel(tree, Path(scratch, f"raw-{machine}"), machine, environment)
            _finish(raw, output, site, epoch_s)
        plugin = _wheel(
            tree / "packaging/pytest-warpline", Path(scratch, "plugin"), "", environment
        )
        _write(plugin.name, wheel_file.read(plugin), output, epoch_s)


def _wheel(tree: Path, folder: Path, machine: str, environment: Mapping[str, str]) -> Path:
    """Build one wheel, and return it: with native libraries for a machine, or without any."""
    env = {**environment, "WARPLINE_BUILD_NATIVE": "0"}
    options: list[str | Path] = ["--no-isolation", "--wheel", "--outdir", folder]
    if machine:
        env = {
            **environment,
            "WARPLINE_MACHINE": machine,
            "CMAKE_TOOLCHAIN_FILE": str(tree / "release" / "zig.cmake"),
            "_PYTHON_HOST_PLATFORM": f"linux-{machine}",  # for the tag
        }
        options += ["-Cinstall.strip=false"]
    _run("build", *options, tree, env=env)
    (wheel,) = folder.glob("*.whl")
    if not machine:
        return wheel
    if not wheel.stem.endswith(machine):  # what users want of a build on their machine
        sys.exit(f"error: the native libraries for {machine} cannot be built, see above")
    # It has nothing to repair: it refuses wheels that need a newer glibc, and renames the others.
    place = folder / "wheelhouse"
    words: list[str | Path] = [
        "repair",
        "--only-plat",
        "--plat",
        f"{POLICY}_{machine}",
        "--wheel-dir",
        place,
        wheel,
    ]
    _call("-c", _AUDITWHEEL.format(machine), *words, env=env)
    (repaired,) = place.glob("*.whl")
    return repaired


def _finish(raw: Path, output: Path, site: Path, epoch_s: int) -> None:
    """Write a wheel, and the wheel of the agent that it makes."""
    files = site_archive.with_site(wheel_file.read(raw), site)
    _write(raw.name, files, output, epoch_s)
    name = raw.name.replace("warpline-", "warpline_agent-", 1)
    _write(name, agent_wheel.files_of(files), output, epoch_s)


def _write(name: str, files: Mapping[str, bytes], output: Path, epoch_s: int) -> None:
    """Write a wheel with the list of what is inside."""
    wheel_file.write(output / name, described(files), epoch_s)


def described(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a wheel with its components' licenses, and the list of components."""
    folder = wheel_file.information(files)
    metadata = files[f"{folder}/METADATA"].decode()
    name, version = (_field(metadata, each) for each in ("Name", "Version"))
    parts = components.inside(set(files), zig_versions())
    needs = re.findall(r"^Requires-Dist: ([\w.-]+)(?![^\n]*extra ==)", metadata, re.MULTILINE)
    texts = {f"release/licenses/{each}": text for each, text in components.texts(parts).items()}
    lines = [f"License-File: {each}\n" for each in texts if f": {each}\n" not in metadata]
    own = "License-File: LICENSE\n"
    metadata = metadata.replace(own, "".join([own, *lines]), 1)
    expression = f"License-Expression: {components.license_of(parts)}"
    metadata = re.sub(r"(?m)^License-Expression: .*$", expression, metadata)
    return {
        **files,
        f"{folder}/METADATA": metadata.encode(),
        **{f"{folder}/licenses/{each}": text for each, text in texts.items()},
        f"{folder}/sboms/{name}.cdx.json": components.document(name, version, parts, needs),
    }


def _field(metadata: str, name: str) -> str:
    found = re.search(rf"^{name}: (.+)$", metadata, re.MULTILINE)
    assert found is not None
    return found[1]


def zig_versions() -> tuple[str, str]:
    """Return the versions of zig and of its clang, whose runtime is linked in."""
    texts = [
        subprocess.run(
            [sys.executable, "-m", "ziglang", *words], capture_output=True, text=True, check=True
        ).stdout
        for words in (["version"], ["c++", "--version"])
    ]
    clang = re.search(r"clang version ([\d.]+)", texts[1])
    assert clang is not None
    return texts[0].strip(), clang[1]


def _epoch_s() -> int:
    chosen = os.environ.get("SOURCE_DATE_EPOCH")
    if chosen:
        return int(chosen)
    words = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def _run(module: str, *words: str | Path, env: Mapping[str, str]) -> None:
    _call("-m", module, *words, env=env)


def _call(*words: str | Path, env: Mapping[str, str]) -> None:
    print("==", *words, flush=True)
    subprocess.run([sys.executable, *map(str, words)], check=True, env=env)


if __name__ == "__main__":
    main()
