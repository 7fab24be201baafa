"""The text of machine code (SASS), by NVIDIA's nvdisasm, if it is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from warpline.cubins.instructions import INSTRUCTION_BYTES
from warpline.frozen import frozen

HOW_TO_GET = "pip install nvidia-cuda-nvdisasm"

_TOOL = "nvdisasm"
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
LONGEST_S = 120.0
_LARGEST_BYTES = 64 * 2**20
_LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;?\s*$")
# Their last operand is a place in the file, which has several functions.
_TARGET = re.compile(
    r"^((?:@!?U?P\w+ )?(?:BRA|BSSY|CALL\.REL|RET\.REL|WARPSYNC)\b.*?)0x([0-9a-f]+)$"
)


@frozen
class Disassembly:
    """Texts of machine code.

    Attributes:
        texts: Of each code, the texts of its instructions; None if it could not be disassembled.
        note: Why not, and what to do, in one sentence; None if it was.
    """

    texts: tuple[tuple[str, ...], ...] | None
    note: str | None


def disassemble(codes: Sequence[bytes], capability: tuple[int, int]) -> Disassembly:
    """Return the text of the instructions of functions, with targets of branches as offsets.

    Args:
        codes: Machine code of each function.
        capability: Compute capability of the GPU, such as (9, 0).
    """
    return _disassembled(tuple(codes), *capability)


@lru_cache(maxsize=4)
def _disassembled(codes: tuple[bytes, ...], major: int, minor: int) -> Disassembly:
    """Return the texts from the first nvdisasm that can make them."""
    if sum(map(len, codes)) > _LARGEST_BYTES:
        return Disassembly(None, "SASS is not shown: there is too much code")
    why = f"{_TOOL} was not found (to get it: {HOW_TO_GET})"
    for tool in tools():
        try:
            listing = _run(tool, b"".join(codes), f"SM{major}{minor}")
        except subprocess.TimeoutExpired:
            why = f"{tool} took more than {LONGEST_S:g} s"
            continue
        except subprocess.CalledProcessError as error:
            said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
            why = f"{tool} failed: {said[0] if said else f'exit status {error.returncode}'}"
            continue
        except OSError as error:
            why = f"{tool}: {error.strerror or error}"
            continue
        texts = _texts(listing, codes)
        if texts is not None:
            return Disassembly(texts, None)
        why = f"{tool} printed no instruction at some places"
    return Disassembly(None, f"SASS is not shown: {why}")


def tools() -> Iterator[str]:
    """Yield the paths of nvdisasm: on PATH, in CUDA toolkits, in packages of this Python."""
    folders = [Path(folder, "bin") for name in _TOOLKITS if (folder := os.environ.get(name))]
    folders.append(Path("/usr/local/cuda/bin"))
    folders += [place for folder in _package("nvidia") for place in folder.glob("cu*/bin")]
    folders += [folder / "backends" / "nvidia" / "bin" for folder in _package("triton")]
    found = [shutil.which(_TOOL), *(shutil.which(_TOOL, path=str(folder)) for folder in folders)]
    yield from dict.fromkeys(path for path in found if path is not None)


def _package(name: str) -> list[Path]:
    """Return the directories of a package, without importing it."""
    spec = importlib.util.find_spec(name)
    return [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]


def _run(tool: str, code: bytes, chip: str) -> str:
    with tempfile.NamedTemporaryFile(prefix="warpline-", suffix=".bin") as file:
        file.write(code)
        file.flush()
        done = subprocess.run(
            [tool, "--binary", chip, file.name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_S,
            check=True,
        )
    return done.stdout.decode(errors="replace")


def _texts(listing: str, codes: Sequence[bytes]) -> tuple[tuple[str, ...], ...] | None:
    """Return the texts of each code; None if some instruction has none."""
    at = {
        int(found[1], 16): " ".join(found[2].split())
        for found in map(_LINE.match, listing.splitlines())
        if found is not None
    }
    texts, start = [], 0
    for code in codes:
        places = range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES)
        of_code = [at.get(start + place) for place in places]
        if None in of_code:
            return None
        texts.append(tuple(_from(start, text) for text in of_code if text is not None))
        start += len(code)
    return tuple(texts)


def _from(start: int, text: str) -> str:
    """Return the text of an instruction with its target counted from the start of its function."""
    found = _TARGET.match(text)
    if found is None:
        return text
    target = int(found[2], 16) - start
    return f"{found[1]}{'-' if target < 0 else ''}{abs(target):#x}"
