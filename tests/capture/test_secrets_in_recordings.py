"""Programs started with secrets: no output file contains one."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest
from support.launching import needs_agent, profile, python

import warpline

SECRET = "XhB72kqP9zQw"

# It starts a child with a secret, names a range, and forks.
PROGRAM = f"""\
import os, subprocess, sys
import nvtx
if "child" not in sys.argv:
    subprocess.run([sys.executable, __file__, "child", "--password", "{SECRET}", "-p{SECRET}"])
    if not os.fork():
        nvtx.mark("fork")
        os._exit(0)
    os.wait()
with nvtx.annotate("work"):
    pass
"""
WORDS = [
    *("--password", SECRET, f"--pw={SECRET}", "-p", SECRET, f"-p{SECRET}", f"--{SECRET}", SECRET),
    *("-H", f"Authorization: Bearer {SECRET}", f"https://me:{SECRET}@host/?sig={SECRET}"),
    *(f'{{"password":"{SECRET}"}}', f"+trainer.logger.api_key={SECRET}", f"MYPASS={SECRET}"),
    *("--lr", SECRET, "--lr", "0.1", "--config", f"/etc/{SECRET}.yaml", f"@{SECRET}", "--", SECRET),
    *(f"user:{SECRET}@host", f"пароль={SECRET}", f"a\n{SECRET}\n", "--batch-size", "64"),
]
VARIABLES = {
    "MY_TOKEN": SECRET,
    "OTHER": SECRET,
    "MASTER_ADDR": f"{SECRET}.cluster",
    "NCCL_DEBUG_FILE": f"/x/{SECRET}",
    "NCCL_DEBUG": "INFO",
    "TORCH_HOME": f"https://me:{SECRET}@host",
    "VLLM_API_KEY": SECRET,
}


@pytest.fixture(autouse=True)
def _agent():
    needs_agent()


@pytest.fixture
def words(tmp_path):
    program = python(tmp_path, PROGRAM)
    return [*program, *WORDS]


def bytes_below(folder: Path) -> bytes:
    """Return the content of every file but the program."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py")
    return b"".join(path.read_bytes() for path in files)


def test_no_byte_of_what_is_shared_holds_a_secret(tmp_path, words):
    options = ("-q", "-o", "run", "--export", "sqlite,json,perfetto", "-e", f"EXTRA={SECRET}")
    assert profile(tmp_path, *options, *words, **VARIABLES).status == 0
    trace = warpline.open(tmp_path / "run.warpline")
    assert trace.row_count("process") == 3
    assert trace.meta.environment["NCCL_DEBUG"] == "INFO"
    assert trace.meta.environment["MASTER_ADDR"] == "***"
    command = trace.meta.command or ""
    assert " program.py --password *** --pw=*** -p *** -p*** --*** " in f"{command} "
    assert command.endswith("--batch-size 64")
    assert warpline.open(tmp_path / "run.sqlite").meta.command == command
    warpline.report(trace, tmp_path / "run.html")
    warpline.export(trace, tmp_path / "again.warpline")
    content = bytes_below(tmp_path)
    assert b"NCCL_DEBUG" in content
    assert SECRET.encode() not in content
    with sqlite3.connect(tmp_path / "run.sqlite") as database:
        assert SECRET not in "".join(database.iterdump())


def test_both_are_kept_when_asked_for(tmp_path, words):
    for flag, command, environment in (
        ("--keep-command", True, False),
        ("--keep-environment", False, True),
    ):
        name = flag.strip("-")
        assert profile(tmp_path, "-q", "-o", name, flag, *words, **VARIABLES).status == 0
        meta = warpline.open(tmp_path / f"{name}.warpline").meta
        assert (SECRET in (meta.command or "")) is command
        assert (meta.environment.get("MY_TOKEN") == SECRET) is environment


def test_a_session_that_was_not_finished_holds_no_secret(tmp_path, words):
    """It is for its user alone, but may be sent to whoever is to find out what went wrong."""
    code = f"{PROGRAM}\nimport pathlib\npathlib.Path('run.warpline').mkdir()\n"
    program = python(tmp_path, code)
    assert profile(tmp_path, "-q", "-o", "run", *program, *WORDS, **VARIABLES).status == 1
    folder = tmp_path / "run.warpline.raw"
    assert list(folder.glob("*.wlraw"))
    assert SECRET.encode() not in bytes_below(folder)


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-c", f"'{SECRET}'", SECRET],
        ["sh", "-c", f"echo {SECRET} >/dev/null"],
        ["env", f"MYPASS={SECRET}", "true"],
        ["env", f"NCCL_X={SECRET}", "true", f"-p{SECRET}"],
    ],
)
def test_texts_of_programs_are_not_kept(tmp_path, command):
    assert profile(tmp_path, "--no-summary", "-o", "run", *command).status == 0
    assert SECRET.encode() not in (tmp_path / "run.warpline").read_bytes()
