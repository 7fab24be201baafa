"""NVIDIA's headers of CUPTI, where they are installed, and programs that are compiled with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "native" / "agent" / "src"
CUDA_INCLUDE = Path("/usr/local/cuda/include")


def header_folders() -> list[Path]:
    """Return the folders of CUPTI's headers: named ones, CUDA's, those of installed packages."""
    named = os.environ.get("WARPLINE_CUPTI_INCLUDE", "")
    folders = [Path(part) for part in named.split(os.pathsep) if part]
    for root in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        places = ("include", "extras/CUPTI/include")
        folders += [Path(root or "/nowhere") / place for place in places]
    folders += sorted(Path("/usr/local").glob("cuda-*/include"))
    for packages in sys.path:
        folders += sorted(Path(packages).glob("nvidia/c*/include"))
    found = [folder for folder in folders if (folder / "cupti_activity.h").is_file()]
    return list({folder.resolve(): folder for folder in found}.values())


def compile_against(folder: Path, lines: Iterable[str], scratch: Path, *more_folders: Path) -> None:
    """Check that a program of these lines compiles with a folder's headers.

    Args:
        folder: The headers.
        lines: The program; it may include the agent's headers.
        scratch: Where to write it.
        more_folders: Headers that `folder` may lack.
    """
    source = scratch / "layouts.cpp"
    source.write_text("\n".join(lines) + "\n")
    folders = (SOURCES, folder, *more_folders, CUDA_INCLUDE)
    includes = [f"-I{part}" for part in folders]
    command = ["c++", "-std=c++20", "-fsyntax-only", "-w", *includes, str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{folder}\n{done.stderr[:4000]}"
