"""The wheel of warpline-agent: what of Warpline's wheel recording takes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import wheel_file
from recording_modules import Modules

ROOT = Path(__file__).parents[1]
NAME = "warpline-agent"
# As `warpline.installation.MARKER`.
MARKER = "warpline/recording_only.txt"
_MARKER_TEXT = b"This is warpline-agent: it records, and does not read recordings.\n"
_SUMMARY = "Records CUDA and PyTorch programs for Warpline, with the standard library only"
_ALWAYS = ("warpline/_native/", "warpline/py.typed")


def files_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of the agent's wheel.

    Args:
        files: Those of a wheel of Warpline, by name.
    """
    old = wheel_file.information(files)
    new = old.replace("warpline-", "warpline_agent-", 1)
    modules = _modules(files)
    kept = {name: data for name, data in files.items() if name in modules}
    kept |= {name: data for name, data in files.items() if name.startswith(_ALWAYS)}
    for name in ("WHEEL", "entry_points.txt", "licenses/LICENSE"):
        kept[f"{new}/{name}"] = files[f"{old}/{name}"]
    kept[f"{new}/METADATA"] = _metadata(files[f"{old}/METADATA"].decode()).encode()
    kept[MARKER] = _MARKER_TEXT
    return kept


def _modules(files: Mapping[str, bytes]) -> set[str]:
    """Return the names of the files of the modules that recording takes."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            if name.endswith(".py"):
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        modules = Modules(Path(folder))
        paths = (modules.paths[name] for name in modules.recording())
        return {path.relative_to(folder).as_posix() for path in paths}


def _metadata(text: str) -> str:
    """Return the metadata: another name and page, and no requirements."""
    head = text.partition("\n\n")[0]
    nvtx = re.findall(r"(?m)^Requires-Dist: (nvtx\b[^;\n]*)$", head)
    head = re.sub(r"(?m)^(Requires-Dist|Provides-Extra): .*\n", "", head + "\n")
    head = re.sub(r"(?m)^License-File: release/.*\n", "", head)
    head += f"Provides-Extra: annotate\nRequires-Dist: {nvtx[0]}; extra == 'annotate'\n"
    head = re.sub(r"(?m)^Name: .*$", f"Name: {NAME}", head)
    head = re.sub(r"(?m)^Summary: .*$", f"Summary: {_SUMMARY}", head)
    return f"{head}\n{(ROOT / 'release' / 'index-agent.md').read_text(encoding='utf-8')}"
