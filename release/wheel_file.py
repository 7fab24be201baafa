"""Wheels as files by name, written so that the same files give the same bytes."""

from __future__ import annotations

import base64
import hashlib
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, bytes]

_EXECUTABLE, _PLAIN = 0o100755, 0o100644
_OLDEST = 315532800  # 1980: a ZIP file has no earlier times


def read(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel by name."""
    with zipfile.ZipFile(path) as wheel:
        return {item.filename: wheel.read(item) for item in wheel.infolist() if not item.is_dir()}


def information(files: Files) -> str:
    """Return the name of the directory with the metadata, such as ``warpline-1.0.dist-info``."""
    (name,) = {name.partition("/")[0] for name in files if name.endswith(".dist-info/WHEEL")}
    return name


def write(path: Path, files: Files, epoch_s: int) -> None:
    """Write a wheel: sorted files, one time, a new RECORD.

    Args:
        path: The wheel.
        files: Its files by name; a RECORD among them is replaced.
        epoch_s: The time of all files, in seconds since 1970.
    """
    record = f"{information(files)}/RECORD"
    others = {name: files[name] for name in sorted(files) if name != record}
    lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in others.items()]
    whole = {**others, record: "".join([*lines, f"{record},,\n"]).encode()}
    when = time.gmtime(max(epoch_s, _OLDEST))[:6]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in whole.items():
            item = zipfile.ZipInfo(name, when)
            item.create_system = 3  # Unix, wherever this runs
            item.external_attr = (_EXECUTABLE if name.endswith(".so") else _PLAIN) << 16
            item.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(item, data, compresslevel=9)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
