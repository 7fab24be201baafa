"""Output files: checked before, complete when they appear, errors about the right file."""

from __future__ import annotations

import errno
import os

import pytest

from warpline.errors import InputError, UsageError
from warpline.files import check_output, complete_directory, complete_file


def refused(number, name=None):
    return OSError(number, os.strerror(number), name)


@pytest.mark.parametrize("complete", [complete_file, complete_directory])
def test_an_error_that_names_another_file_stays_as_it_is(tmp_path, complete):
    with pytest.raises(FileNotFoundError) as caught, complete(tmp_path / "out"):
        raise refused(errno.ENOENT, "run.sqlite")
    assert caught.value.filename == "run.sqlite"
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (refused(errno.EIO), "Input/output error"),
        (refused(errno.ENOSPC, "run.sqlite"), "No space left on device"),  # as copying does
    ],
)
def test_other_errors_are_about_the_output(tmp_path, error, reason):
    with pytest.raises(InputError) as caught, complete_file(tmp_path / "out"):
        raise error
    assert caught.value.message == f"cannot write {tmp_path / 'out'}: {reason}"


def test_an_error_of_the_unfinished_file_is_about_the_output(tmp_path):
    with pytest.raises(InputError) as caught, complete_directory(tmp_path / "out") as unfinished:
        (unfinished / "no" / "kernel.parquet").write_text("x")
    assert caught.value.message == f"cannot write {tmp_path / 'out'}: No such file or directory"


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with complete_file(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    with pytest.raises(UnicodeEncodeError), complete_file(path) as unfinished:
        unfinished.write_text("half \ud800", encoding="utf-8")
    assert path.read_text() == "new"
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("name", "is_folder", "error", "message"),
    [
        ("no/out", False, InputError, "there is no directory"),
        ("folder", False, UsageError, "is a directory; this format writes a file"),
        ("file", True, UsageError, "is a file; this format writes a directory"),
        ("file", False, UsageError, "already exists"),
        ("full", True, UsageError, "already exists"),
        ("pipe", False, UsageError, "is a device or a pipe"),
    ],
)
def test_what_may_not_be_written_is_told(tmp_path, name, is_folder, error, message):
    for folder in ("folder", "full"):
        (tmp_path / folder).mkdir()
    for file in ("file", "full/table"):
        (tmp_path / file).touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(error, match=message):
        check_output(tmp_path / name, is_folder=is_folder)


def test_what_may_be_written_passes(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    check_output(tmp_path / "new")
    check_output(tmp_path / "empty", is_folder=True)
    check_output(tmp_path / "file", overwrite=True)
