"""Builds what the harm test needs: the agent and core, and the CUDA programs, side by side."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = Path(__file__).with_name("cuda")
#: Programs in which kernels call the device's own runtime.
_RELOCATABLE = {"device_graphs"}


class BuildError(Exception):
    """Something could not be built; the message says what the compiler said."""


def find_nvcc() -> Path | None:
    """Return CUDA's compiler, or None where there is none."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    return Path(found) if found else None


def build(folder: Path, architecture: str, *, with_cuda: bool = True) -> dict[str, str]:
    """Build everything into a folder and return the variables that name it.

    Agent and core are not built where WARPLINE_AGENT names an agent.

    Raises:
        BuildError: A compiler failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    variables = {}
    with ThreadPoolExecutor(8) as pool:
        jobs = []
        if not os.environ.get("WARPLINE_AGENT"):
            native = folder / "native"
            jobs.append(pool.submit(_build_native, native))
            variables["WARPLINE_AGENT"] = str(native / "libwarpline_agent.so")
            variables["WARPLINE_CORE"] = str(native / "libwarpline_core.so")
        nvcc = find_nvcc()
        if with_cuda and nvcc:
            jobs += [
                pool.submit(_build_cuda, nvcc, source, folder, architecture)
                for source in sorted(SOURCES.glob("*.cu"))
            ]
            variables |= _nvrtc_of(nvcc)
        for job in jobs:
            job.result()
    return variables


def _build_native(folder: Path) -> None:
    source = str(ROOT / "native")
    _run(["cmake", "-S", source, "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"])
    _run(["cmake", "--build", str(folder), "--parallel"])


def _build_cuda(nvcc: Path, source: Path, folder: Path, architecture: str) -> None:
    program = folder / source.stem
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
    if program.exists() and program.stat().st_mtime > newest:
        return
    made = program.with_suffix(".new")
    command = [str(nvcc), "-std=c++17", "-O1", f"-arch={architecture}", "-o", str(made)]
    if source.stem in _RELOCATABLE:
        command += ["-rdc=true", "-lcudadevrt"]
    _run([*command, str(source), "-ldl", "-lpthread"])
    made.rename(program)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-3000:]
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")


def _nvrtc_of(nvcc: Path) -> Mapping[str, str]:
    """Return the variables that name NVRTC's libraries, in the toolkit or beside PyTorch."""
    toolkit = nvcc.resolve().parents[1]
    folders = [toolkit / "lib64", toolkit / "lib", toolkit / "targets/x86_64-linux/lib"]
    folders += [Path("/usr/local/cuda/lib64")]
    folders += [Path(path) / "nvidia/cu13/lib" for path in sys.path if path]
    for folder in folders:
        found = {
            variable: sorted(folder.glob(pattern))
            for variable, pattern in (
                ("HARM_NVRTC", "libnvrtc.so*"),
                ("HARM_NVRTC_BUILTINS", "libnvrtc-builtins.so*"),
            )
        }
        if found["HARM_NVRTC"]:
            return {variable: str(paths[0]) for variable, paths in found.items() if paths}
    return {}
