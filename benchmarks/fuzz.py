"""Fuzz the readers: damaged recordings must not cause tracebacks, hangs or crashes.

Usage: python benchmarks/fuzz.py FILE... [--mutants 1000] [--limit SECONDS] [--seconds 20]
                                 [--seed 1] [--keep DIR]

Every mutant is a copy of one of the files with some bytes flipped, overwritten, cut off,
duplicated, zeroed or inserted. Files compressed with xz or gzip are decompressed first. Since
readers decompress gzip themselves, every other gzip mutant is compressed again, and some of these
are damaged once more. Every other mutant of a recording gets matching checksums, because the reader
must also reject damage done before checksums were computed. A child process opens the mutant, loads
every column of every table and computes every summary. The result must be success or one of
Warpline's own errors. Anything else is printed and, with --keep, its file is kept. The exit status
is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import lzma
import multiprocessing
import os
import random
import struct
import sys
import tempfile
import time
import traceback
import zipfile
import zlib
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

TAIL_LINES = 12
GZIP_MAGIC, XZ_MAGIC, ZIP_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00", b"PK\x03\x04"
SEAL = b"warpline directory crc32 %08x"
# What turns the meaning of a text around, or of a number in it.
TOKENS = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\0", b"-", b"e99", b"\\ud800"),
    *(b'"}', b"[[[[", b'{"a":', b"null", b"NaN", b"9" * 25, b"\xef\xbb\xbf", b"\xff\xfe"),
)


class Original(NamedTuple):
    """A decompressed file to damage, and whether readers accept it compressed."""

    data: bytes
    is_gzip: bool


def load(path: Path) -> Original:
    """Read a file and decompress it if necessary."""
    data = path.read_bytes()
    if data.startswith(XZ_MAGIC):
        return Original(lzma.decompress(data), is_gzip=False)
    is_gzip = data.startswith(GZIP_MAGIC)
    return Original(gzip.decompress(data) if is_gzip else data, is_gzip)


def mutant_of(original: Original, chance: random.Random) -> bytes:
    """Return a damaged copy."""
    data = mutate(bytearray(original.data), chance)
    if original.is_gzip and chance.randrange(2):
        data = bytearray(gzip.compress(data, 1))
        if chance.randrange(2):
            data = mutate(data, chance)
    if data.startswith(ZIP_MAGIC) and chance.randrange(2):
        data = sealed(data)
    return bytes(data)


def sealed(data: bytearray) -> bytearray:
    """Return the data with matching checksums of members and directory, if it is a ZIP file."""
    fitting = bytearray(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            seal(fitting, archive)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
        return data
    return fitting


def seal(data: bytearray, archive: zipfile.ZipFile) -> None:
    """Write matching checksums; struct.error if the archive's lengths are invalid."""
    entry = archive.start_dir
    for info in archive.infolist():
        at = info.header_offset
        begin = at + 30 + sum(struct.unpack_from("<HH", data, at + 26))
        crc = zlib.crc32(data[begin : begin + info.file_size])
        struct.pack_into("<L", data, at + 14, crc)
        struct.pack_into("<L", data, entry + 16, crc)
        entry += 46 + sum(struct.unpack_from("<HHH", data, entry + 28))
    if archive.comment:
        comment_at = len(data) - len(archive.comment)
        data[comment_at:] = SEAL % zlib.crc32(data[archive.start_dir : comment_at])


def mutate(data: bytearray, chance: random.Random) -> bytearray:
    """Damage the bytes in one to four ways."""
    for _ in range(chance.randint(1, 4)):
        if not data:
            break
        at = chance.randrange(len(data))
        length = min(len(data) - at, 1 << chance.randint(0, 12))
        kind = chance.randrange(9)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at : at + length] = chance.randbytes(length)
        elif kind == 2:
            data[at : at + length] = bytes(length)
        elif kind == 3:
            data[at : at + length] = b"\xff" * length
        elif kind == 4:
            other = chance.randrange(len(data))
            data[at : at + length] = data[other : other + length]
        elif kind == 5:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 6:
            token = chance.choice(TOKENS)
            data[at : at + len(token)] = token
        elif kind == 7:
            del data[at : at + length]
        else:
            del data[at:]
    return data


def preload(paths: list[Path]) -> None:
    """Read the undamaged files, so that children inherit all imports."""
    for path in paths:
        if not path.read_bytes().startswith(XZ_MAGIC):
            read_everything(path)
    if sum(1 for _ in Path("/proc/self/task").iterdir()) > 1:
        raise SystemExit("the parent has threads: its children could hang in the fork")


def read_everything(path: Path) -> None:
    """Open a recording, load all of its columns and compute all tables."""
    from warpline import api  # noqa: PLC0415 - after OPENBLAS_NUM_THREADS is set
    from warpline.errors import CorruptTraceError, MissingTableError  # noqa: PLC0415
    from warpline.result import ANALYSES  # noqa: PLC0415
    from warpline.schema import TABLES  # noqa: PLC0415

    trace = api.open(path)
    for table in trace.tables:
        with contextlib.suppress(CorruptTraceError):
            trace.columns(table, *(column.name for column in TABLES[table].columns))
    api.default_tables()
    for name in ANALYSES.names():
        with contextlib.suppress(MissingTableError, CorruptTraceError):
            api.run(trace, name)


def child(path: Path, report: Connection) -> None:
    """Read one mutant and report the outcome."""
    from warpline.errors import SchemaError, WarplineError  # noqa: PLC0415 - in the child only

    try:
        read_everything(path)
        report.send(("read", ""))
    except SchemaError:
        report.send(("DEFECT", traceback.format_exc()))
    except WarplineError as error:
        report.send((type(error).__name__, error.message))
    except BaseException:  # noqa: BLE001 - finding these is the purpose
        report.send(("TRACEBACK", traceback.format_exc()))


def outcome(path: Path, seconds: float) -> tuple[str, str]:
    """Read one mutant in a separate process; return the outcome and details."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=child, args=(path, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return "HANG", f"longer than {seconds:g} s"
        kind, details = receiver.recv()
        return str(kind), str(details)
    except EOFError:
        process.join()
        return "CRASH", f"exit status {process.exitcode}"
    finally:
        process.kill()
        process.join()


def main() -> int:
    """Run the mutants and print a count of each outcome."""
    parser = argparse.ArgumentParser(description="Fuzz the readers with damaged recordings.")
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="stop after this many seconds"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit per mutant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="directory for failing files")
    options = parser.parse_args()
    originals = [load(path) for path in options.files]
    preload(options.files)
    counts: Counter[str] = Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        mutant = Path(folder) / "mutant"
        for number in range(options.mutants):
            if time.monotonic() - begin > options.limit:
                break
            chance = random.Random(f"{options.seed}/{number}")
            mutant.write_bytes(mutant_of(chance.choice(originals), chance))
            kind, details = outcome(mutant, options.seconds)
            counts[kind] += 1
            if kind.isupper():
                tail = "\n".join(details.splitlines()[-TAIL_LINES:])
                print(f"mutant {number}: {kind}: {tail}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    mutant.replace(options.keep / f"mutant-{number}")
    taken = time.monotonic() - begin
    print(f"{counts.total()} mutants in {taken:.0f} s: {dict(counts)}")
    return int(any(kind.isupper() for kind in counts))


if __name__ == "__main__":
    # The parent must not have threads, so that it can fork safely.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    multiprocessing.set_start_method("fork")
    sys.exit(main())
