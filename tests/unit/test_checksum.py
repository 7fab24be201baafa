"""The checksum of members, against zlib's, however long the bytes are and wherever they lie."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib

import numpy as np
import pytest

from warpline import native
from warpline.checksum import crc32

# Around what is gone through alike: 16, 64 and 4096 bytes, streams and threads of more.
EDGES = (0, 1, 15, 16, 63, 64, 65, 4095, 4096, 262_143, 262_144, 262_400, 16_777_215, 16_777_217)
CONTENT = np.random.default_rng(7).integers(0, 256, 17 << 20, np.uint8)


@pytest.fixture
def core() -> native.Core:
    loaded = native.core()
    if loaded is None:
        pytest.skip("needs the native core")
    return loaded


@pytest.mark.parametrize("length", EDGES)
@pytest.mark.parametrize("offset", [0, 1, 7, 64])
def test_it_is_that_of_zlib(length: int, offset: int) -> None:
    part = CONTENT[offset : offset + length].data
    assert crc32(part) == zlib.crc32(part)


def test_the_core_agrees_with_zlib_wherever_the_bytes_lie(core: native.Core) -> None:
    chance = random.Random(3)
    for _ in range(400):
        begin = chance.randrange(200)
        length = int(2 ** chance.uniform(0, 21))
        before, threads = chance.getrandbits(32), chance.randrange(4)
        part = CONTENT[begin : begin + length]
        found = core.wl_crc32(part.ctypes.data, length, before, threads)
        assert found == zlib.crc32(part.data, before), (begin, length, before, threads)


def test_parts_add_up(core: native.Core) -> None:
    address = CONTENT.ctypes.data
    first = core.wl_crc32(address, 1_000_003, 0, 0)
    rest = CONTENT.size - 1_000_003  # enough for two threads
    assert core.wl_crc32(address + 1_000_003, rest, first, 2) == zlib.crc32(CONTENT.data)


def test_without_the_core_it_is_zlibs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpline.native.core", lambda: None)
    assert crc32(CONTENT.data) == zlib.crc32(CONTENT.data)


def test_a_negative_length_is_refused(core: native.Core) -> None:
    assert core.wl_crc32(CONTENT.ctypes.data, -1, 0, 0) == -native.BAD_ARGUMENT


def test_numpy_is_not_imported_for_it() -> None:
    """Finishing a recording would take half as long again."""
    code = (
        "import sys, zlib; from warpline.checksum import crc32; data = bytes(1_000_000);"
        " print(crc32(memoryview(data)) == zlib.crc32(data), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
