"""Common code of the Python programs of the harm test: the device, and printing results."""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping

#: The device that programs use; HARM_DEVICE=cpu runs them without a GPU.
DEVICE = os.environ.get("HARM_DEVICE", "cuda")
STEPS = 8


def tell(text: str) -> None:
    """Print and flush a line, so that it is visible however the program ends."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell_checksum(name: str, parts: Iterable[bytes]) -> None:
    """Print the CRC-32 of memory that was copied from the device."""
    total = 0
    for part in parts:
        total = zlib.crc32(part, total)
    tell(f"{name} checksum {total:08x}")


def run(programs: Mapping[str, Callable[[], None]]) -> None:
    """Run the program given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(programs))
    programs[parser.parse_args().name]()
