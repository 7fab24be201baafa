"""Names of machines and files, what is sent to a machine, and the command that starts it there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.launching import needs_agent

import warpline
from warpline.capture.flags import parsing
from warpline.errors import HostError, UsageError
from warpline.hosts import checked_host, place_of
from warpline.remote import bootstrap, job
from warpline.remote.bundle import bundle
from warpline.remote.recording import words_there
from warpline.remote.ssh import Connection, words_of_ssh


@pytest.mark.parametrize(
    ("word", "host"),
    [
        ("gpu1", "gpu1"),
        ("me@gpu1.example.com", "me@gpu1.example.com"),
        ("first.last+x@10.0.0.1", "first.last+x@10.0.0.1"),
        ("[::1]", "::1"),
        ("me@[fe80::1%eth0]", "me@fe80::1%eth0"),
    ],
)
def test_machines_are_named_as_for_ssh(word, host):
    assert checked_host(word) == host


@pytest.mark.parametrize(
    "word",
    [
        *(
            "-oProxyCommand=touch x",
            "-v",
            "me@-oProxyCommand=x",
            "-me@gpu1",
            "gpu1 -v",
            "",
            "@gpu1",
        ),
        *(
            "gpu1;id",
            "$(id)",
            "a`id`",
            "gpu1\n",
            "gpu1\0",
            "me@",
            "a@b@c",
            "ssh://gpu1",
            "gpu1:22",
            "ü",
        ),
        *("[$(id)]", "gpu1/path", "'gpu1'", "a|b", "../x"),
    ],
)
def test_what_ssh_could_take_for_something_else_is_refused(word):
    with pytest.raises(UsageError):
        checked_host(word)
    with pytest.raises(UsageError):
        parsing.parse(["--host", word, "--", "true"])


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("gpu1:run.warpline", ("gpu1", "run.warpline")),
        ("me@gpu1:/data/a b:c.warpline", ("me@gpu1", "/data/a b:c.warpline")),
        ("[::1]:~/run.warpline", ("::1", "~/run.warpline")),
        ("gpu1:-x", ("gpu1", "-x")),
        *((word, None) for word in ("C:\\x", "C:/x", "./a:b", "/a:b", "a/b:c", "gpu1:", ":x")),
        *((word, None) for word in ("-o:x", "select a:b", "me@-o:x", "http://x/y", "a::b")),
    ],
)
def test_files_are_named_as_for_scp(word, found):
    place = place_of(word)
    assert (None if place is None else (place.host, place.path)) == found


def test_a_file_of_this_machine_is_meant_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place_of("gpu1:run") is not None
    Path("gpu1:run").touch()
    assert place_of("gpu1:run") is None


def test_a_command_keeps_its_bytes():
    every = os.fsdecode(bytes(range(1, 256)))
    assert job.decoded(job.encoded(every)) == every


def test_flags_about_this_machine_stay_here(tmp_path):
    (tmp_path / "flags").write_text("--host-dir 'a b' -t nvtx,cuda")
    words = ["--host=gpu1", "-o", "x", "--command-file", str(tmp_path / "flags"), "-f", "-e"]
    words += ["A=1 2", "--host-python", "p", "--", "prog", "-o", "--host"]
    command = parsing.parse(words).command
    there = ["-t", "nvtx,cuda", "-f", "-e", "A=1 2", "--", "prog", "-o", "--host"]
    assert words_there(words, command) == there


@pytest.mark.parametrize("words", [["--host-dir", "x"], ["--host-python", "x"]])
def test_flags_about_a_machine_need_one(words):
    with pytest.raises(UsageError, match="requires --host"):
        parsing.parse([*words, "--", "true"])


def test_a_program_that_goes_on_needs_its_output_read():
    with pytest.raises(UsageError, match="--host and -x false cannot be combined"):
        parsing.parse(["--host", "gpu1", "-d", "1", "-x", "false", "--", "true"])


def test_lists_are_of_this_machine_only():
    with pytest.raises(UsageError, match="--host has no lists"):
        parsing.parse(["--host", "gpu1", "--gpu-metrics-devices=help"])


def test_files_arrive_as_they_were(tmp_path):
    files = [("a/b.py", b"1\n\n2"), ("a/empty", b""), ("c", bytes(range(256)))]
    content = bootstrap.content_of(files)
    bootstrap.unpack(content, tmp_path / "x")
    found = {p.relative_to(tmp_path / "x").as_posix(): p for p in (tmp_path / "x").rglob("*")}
    assert {n: p.read_bytes() for n, p in found.items() if p.is_file()} == dict(files)
    other = bootstrap.content_of([*files[:2], ("c", bytes(range(255)))])
    assert bootstrap.hash_of(content) != bootstrap.hash_of(other)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_no_file_is_written_elsewhere(tmp_path, name):
    with pytest.raises(ValueError, match="x"):
        bootstrap.unpack(bootstrap.content_of([(name, b"1")]), tmp_path / "in")
    assert not (tmp_path / "x").exists()


def test_the_copy_has_all_of_the_package():
    root = Path(warpline.__file__).parent
    content = bundle().content
    listed = content.partition(b"\n")[0].decode()
    for path in root.rglob("*.py"):
        assert f'"warpline/{path.relative_to(root).as_posix()}"' in listed
    assert '"warpline/viewer/dist/' in listed
    assert ".pyc" not in listed


SHELLS = ("sh", "bash", "dash", "zsh", "fish", "tcsh", "csh")


@pytest.mark.parametrize("shell", [*filter(shutil.which, SHELLS)])
def test_any_login_shell_starts_the_python_that_is_named(tmp_path, shell, monkeypatch):
    python = tmp_path / "my $(id) 'py' \"th\" `on`"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    if shell in {"tcsh", "csh", "fish"}:  # they quote otherwise; without quotes in names they agree
        python = python.rename(tmp_path / "my python")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("warpline.remote.ssh.words_of_ssh", lambda: ["ssh"])
    for named in (str(python), f"~/{python.name}"):
        code = b"print(sys.stdin.buffer.read())"
        command = Connection("gpu1", named)._finding(len(code))
        given = code + b"rest"
        done = subprocess.run([shell, "-c", command], check=False, input=given, capture_output=True)
        assert (done.returncode, done.stdout) == (0, b"b'rest'\n"), done.stderr


def test_the_command_line_of_ssh_can_be_chosen(monkeypatch):
    monkeypatch.setenv("WARPLINE_SSH", f"{sys.executable} -F 'a b'")
    assert words_of_ssh() == [sys.executable, "-F", "a b"]
    for wrong in ("'", "no-such-program -v"):
        monkeypatch.setenv("WARPLINE_SSH", wrong)
        with pytest.raises(UsageError):
            words_of_ssh()


REQUEST: dict[str, object] = {
    "machine": os.uname().machine,
    "directory": None,
    "words": [],
    "variables": [],
}


def test_libraries_that_do_not_work_there_are_an_error_before_the_program(tmp_path, monkeypatch):
    other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    with pytest.raises(HostError, match=f"this Warpline is built for {other}"):
        job.prepare({**REQUEST, "machine": other})
    library = tmp_path / "libwarpline_agent.so"
    library.write_text("of another C library")
    monkeypatch.setenv("WARPLINE_AGENT", str(library))
    with pytest.raises(HostError, match="do not work there: cannot load"):
        job.prepare(REQUEST)


def test_a_directory_that_is_not_there_is_named(monkeypatch):
    needs_agent()
    with pytest.raises(HostError, match=r"/no/such: no such directory"):
        job.prepare({**REQUEST, "directory": "/no/such"})
