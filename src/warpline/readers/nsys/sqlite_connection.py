"""Opening a SQLite file without ever writing to it or beside it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.errors import CorruptTraceError, InputError, UnknownFormatError
from warpline.frozen import frozen, replace
from warpline.lazy import lazy
from warpline.readers.nsys.sqlite_scan import DAMAGED_HINT

if TYPE_CHECKING:
    import shutil
    import tempfile
else:
    shutil = lazy("shutil")
    tempfile = lazy("tempfile")

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_WAL_VERSION = 2
_BUSY_S = 0.25
_MIN_VALUE_LIMIT = 2**20
_MAX_VALUE_LIMIT = 10**9  # sqlite3's own


@frozen
class FileState:
    """The state of a database file, from its header and the files next to it.

    Attributes:
        path: The file.
        bytes: Its size.
        missing_bytes: How much shorter it is than its header states; 0 if complete.
        cut_page_bytes: Size of a partial last page; 0 if there is none.
        uses_log: Whether sqlite3 would look for a write-ahead log, or create one.
        has_log: Whether it has a nonempty write-ahead log.
        has_shared_memory: Whether the log's index exists: the writer may still run.
        has_journal: Whether it has a nonempty rollback journal.
    """

    path: Path
    bytes: int
    missing_bytes: int
    cut_page_bytes: int
    uses_log: bool
    has_log: bool
    has_shared_memory: bool
    has_journal: bool


def inspect(path: Path) -> FileState:
    """Check that a path is a SQLite database and read its header.

    Raises InputError if it cannot be read, UnknownFormatError if it is not SQLite,
    CorruptTraceError if its header is damaged.
    """
    with reading_errors(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path}: is a directory", hint="name a file in it")
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer
            raise InputError(f"{path}: is not a regular file")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    _check_magic(path, header)
    real = os.path.realpath(path)  # sqlite3 keeps its journals beside the real file
    has_log = _has_content(real + "-wal")
    page_bytes = _page_bytes(path, header, size)
    missing_bytes = 0 if has_log else _missing_bytes(header, size, page_bytes)
    return FileState(
        path=path,
        bytes=size,
        missing_bytes=missing_bytes,
        cut_page_bytes=size % page_bytes if missing_bytes else 0,
        uses_log=header[19] == _WAL_VERSION or Path(real + "-wal").exists(),
        has_log=has_log,
        has_shared_memory=Path(real + "-shm").exists(),
        has_journal=_has_content(real + "-journal"),
    )


def _check_magic(path: Path, header: bytes) -> None:
    if not header:
        raise InputError(f"{path}: is empty", hint="export it again: the export did not finish")
    if not _MAGIC.startswith(header[:16]):
        hint = "export the recording with: nsys export --type sqlite REPORT.nsys-rep"
        raise UnknownFormatError(f"{path}: is not a SQLite database, or is encrypted", hint=hint)
    if len(header) < _HEADER_BYTES:
        raise CorruptTraceError(f"{path}: truncated after {len(header)} bytes", hint=DAMAGED_HINT)


def _page_bytes(path: Path, header: bytes, size: int) -> int:
    """Return the size of a page. Source: fileformat2.html, 1.3.2."""
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    if page_size < 512 or page_size & (page_size - 1):
        message = f"{path}: is damaged: invalid page size {page_size} in its header"
        raise CorruptTraceError(message, hint=DAMAGED_HINT)
    if size < page_size:  # sqlite3 would take it for an empty database
        message = f"{path}: truncated after {size:,} bytes, within its first page"
        raise CorruptTraceError(message, hint=DAMAGED_HINT)
    return page_size


def _missing_bytes(header: bytes, size: int, page_size: int) -> int:
    """Compare the file's size with its header. Source: fileformat2.html, 1.3.7."""
    change_counter = int.from_bytes(header[24:28], "big")
    pages = int.from_bytes(header[28:32], "big")
    valid_for = int.from_bytes(header[92:96], "big")
    if pages == 0 or change_counter != valid_for:  # written by a sqlite3 before 3.7
        pages = -(-size // page_size)
    return max(0, pages * page_size - size)


def connect(state: FileState) -> sqlite3.Connection:
    """Open a file for reading. Raises sqlite3.Error."""
    # sqlite3 would create a log and its shared memory next to the file. If the log is empty, the
    # file is opened as immutable.
    mode = "mode=ro&immutable=1" if state.uses_log and not state.has_log else "mode=ro"
    connection = sqlite3.connect(
        f"{state.path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(connection.close)
        _configure(connection, state)
        on_failure.pop_all()
    return connection


def _configure(connection: sqlite3.Connection, state: FileState) -> None:
    limit = min(max(2 * state.bytes, _MIN_VALUE_LIMIT), _MAX_VALUE_LIMIT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)  # no value outgrows its file
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    if state.missing_bytes:
        # Without this switch, sqlite3 refuses a truncated file. Nothing is ever written.
        connection.execute("PRAGMA writable_schema=ON")


def must_recover(state: FileState) -> bool:
    """Whether only the log holds some changes, and no writer shares it."""
    return state.has_log and not state.has_shared_memory


def can_recover(state: FileState, error: sqlite3.Error) -> bool:
    """Whether reading failed because of a log or journal left by a dead writer."""
    unfinished = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
    return (state.has_log or state.has_journal) and primary(error_code(error)) in unfinished


def recovered_copy(state: FileState) -> tuple[FileState, tempfile.TemporaryDirectory[str]]:
    """Copy the file with its log or journal to a temporary directory, and let sqlite3 apply them.

    Returns the copy's state, and its directory, which the caller removes. Raises InputError or
    sqlite3.Error.
    """
    folder = tempfile.TemporaryDirectory(prefix="warpline-")
    copy = Path(folder.name) / "copy.sqlite"
    with contextlib.ExitStack() as on_failure, reading_errors(state.path):
        on_failure.callback(folder.cleanup)
        real = os.path.realpath(state.path)
        shutil.copyfile(real, copy)
        for suffix in ("-wal", "-journal"):
            if _has_content(real + suffix):
                shutil.copyfile(real + suffix, f"{copy}{suffix}")
        _apply_changes(copy)
        recovered = inspect(copy)
        on_failure.pop_all()
    return recovered, folder


def whole_pages_copy(state: FileState) -> tuple[FileState, tempfile.TemporaryDirectory[str]]:
    """Copy a truncated file without its partial last page.

    sqlite3 fills such a page with zeros and reads rows of zeros and nulls from it, but reports a
    missing page. Returns and raises as `recovered_copy` does.
    """
    folder = tempfile.TemporaryDirectory(prefix="warpline-")
    copy = Path(folder.name) / "copy.sqlite"
    size = state.bytes - state.cut_page_bytes
    with contextlib.ExitStack() as on_failure, reading_errors(state.path):
        on_failure.callback(folder.cleanup)
        shutil.copyfile(state.path, copy)
        os.truncate(copy, size)
        on_failure.pop_all()
    return replace(state, path=copy, bytes=size, cut_page_bytes=0), folder


def _apply_changes(copy: Path) -> None:
    with contextlib.closing(
        sqlite3.connect(copy, timeout=_BUSY_S, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()


@contextlib.contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's errors about a file into InputError."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except PermissionError as error:
        raise InputError(f"{path}: permission denied") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        text = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: cannot be read: {text}") from error


def sqlite_failure(error: sqlite3.Error | UnicodeError, what: str) -> InputError:
    """Turn sqlite3's error into one line with a hint.

    A UnicodeError means an error that quotes non-UTF-8 bytes, or a name that has them.
    """
    if isinstance(error, UnicodeError):
        message = f"{what} is damaged: a name in its schema is not UTF-8"
        return CorruptTraceError(message, hint=DAMAGED_HINT)
    code = primary(error_code(error))
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}:
        hint = "wait until the program that writes it has ended, or read a copy of it"
        return InputError(f"{what}: is locked by another program", hint=hint)
    if code == sqlite3.SQLITE_NOTADB:
        return CorruptTraceError(f"{what} is damaged or encrypted: {error}", hint=DAMAGED_HINT)
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return InputError(f"{what}: cannot be opened for reading: {error}")
    if code == sqlite3.SQLITE_IOERR:
        return InputError(f"{what}: cannot be read: {error}")
    return CorruptTraceError(f"{what} is damaged: {error}", hint=DAMAGED_HINT)


def error_code(error: BaseException) -> int:
    """Return sqlite3's extended error code, or 0 if the error carries none."""
    return int(getattr(error, "sqlite_errorcode", 0))


def primary(code: int) -> int:
    """Return the primary code of an extended one."""
    return code & 0xFF


def _has_content(path: str) -> bool:
    try:
        return Path(path).stat().st_size > 0
    except OSError:
        return False
