"""Recordings of another machine, read with a real ssh: copied once, or shown through a tunnel."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from support.machines import HOST, Machine

import warpline
from warpline.errors import HostError
from warpline.hosts import place_of
from warpline.remote import copies
from warpline.remote.ssh import Connection

LISTENING = "0A"  # the state in /proc/net/tcp
LOOPBACK = "0100007F"


@pytest.fixture(scope="session")
def made(data_dir: Path) -> Path:
    """A recording."""
    return data_dir.parents[1] / "src/warpline/data/pageable_h2d.bad.sqlite"


@pytest.fixture
def there(machine: Machine, made: Path) -> str:
    """The name of a recording there, as a user would type it."""
    name = "it's a run.sqlite"
    shutil.copy(made, machine.home / name)
    return f"{HOST}:{name}"


def copied(machine: Machine, monkeypatch: pytest.MonkeyPatch, word: str) -> copies.Copy:
    """Return the copy of a recording that is named as a user would."""
    place = place_of(word)
    assert place is not None
    monkeypatch.setenv("WARPLINE_SSH", machine.ssh)
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.local / ".cache"))
    with Connection(place.host) as connection:
        return copies.copy_of(place, connection)


def test_a_recording_there_is_read_as_one_here(machine, there, made):
    found = machine.run("stats", "-o", ".", "-r", "cuda_gpu_kern_sum", there)
    assert (found.status, found.out) == (0, "")
    assert f"note: copied {there} (" in found.err
    written = machine.local / "it's a run_cuda_gpu_kern_sum.csv"  # here, not beside the copy
    result = warpline.stats(made, "cuda_gpu_kern_sum")
    assert len(written.read_text().splitlines()) == 1 + len(result)
    written.unlink()


def test_it_is_copied_once_unless_it_changes(machine, there, made, monkeypatch):
    first = copied(machine, monkeypatch, there)
    with (
        Connection(HOST) as connection,
        connection.request({"do": "look", "path": there.partition(":")[2]}) as exchange,
    ):
        exchange.hear()
        assert exchange.copied is None  # nor is Warpline
    assert first.path.name == "it's a run.sqlite"
    assert first.path.read_bytes() == made.read_bytes()
    again = copied(machine, monkeypatch, there)
    assert (again.path, again.is_new) == (first.path, False)
    os.utime(machine.home / first.path.name, (1, 1))
    changed = copied(machine, monkeypatch, there)
    assert changed.is_new
    assert changed.path != first.path


def test_what_is_not_read_for_a_week_is_removed(machine, there, monkeypatch):
    first = copied(machine, monkeypatch, there)
    os.utime(first.path.parent, (1, 1))
    os.utime(machine.home / first.path.name, (2, 2))
    assert copied(machine, monkeypatch, there).path.exists()
    assert not first.path.parent.exists()


def test_a_file_that_is_not_there_is_named(machine, monkeypatch):
    with pytest.raises(HostError) as caught:
        copied(machine, monkeypatch, f"{HOST}:~/nothing.warpline")
    assert caught.value.message == f"far: {machine.home}/nothing.warpline: no such file"
    with pytest.raises(HostError, match=r"far: .* is not a file"):
        copied(machine, monkeypatch, f"{HOST}:.")


def listening() -> set[tuple[str, str]]:
    """Return the addresses and ports on which this machine listens."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, address, _, state, *_ = line.split()
            if state == LISTENING:
                found.add((address.partition(":")[0], address.partition(":")[2]))
    return found


def test_the_viewer_is_reached_through_a_tunnel(machine, there):
    needs = [sys.executable, "-I", "-c", "import numpy, polars, rich"]
    if subprocess.run(needs, check=False).returncode:
        pytest.skip("numpy, polars or rich is not where this Python has its modules")
    before = listening()
    process = machine.start("view", "--no-browser", "--host-python", sys.executable, there)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]+/", url), process.communicate()
    with urllib.request.urlopen(url) as page:
        assert b"<title>" in page.read()
    # Others may have begun to listen, too, but nobody beyond this machine may reach any of ours.
    ports = {port for address, port in listening() - before if address == LOOPBACK}
    assert f"{int(url.split(':')[2].split('/')[0]):04X}" in ports
    assert not [port for address, port in listening() - before if address == "00000000"]
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "note: serving to this machine and far only; press Ctrl+C to stop" in err
    assert "copied" not in err.replace("note: copied Warpline", "")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url)


@pytest.mark.slow
def test_without_what_reads_recordings_it_is_copied(machine, there, tmp_path):
    bare = tmp_path / "bare"  # a Python without packages
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    process = machine.start("view", "--no-browser", "--host-python", str(bare), there)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "lacks numpy, polars, rich: the recording is copied here" in err


def test_a_disk_that_takes_no_copy_is_named(machine, there, monkeypatch):
    cache = machine.home / ".cache"
    aside = cache.rename(machine.home / "aside") if cache.exists() else None
    cache.touch()  # as a full disk: nothing can be written below it
    try:
        with pytest.raises(HostError) as caught:
            copied(machine, monkeypatch, there)
    finally:
        cache.unlink()
        if aside is not None:
            aside.rename(cache)
    assert caught.value.message == (
        f"far: cannot copy Warpline to {cache}/warpline: Not a directory"
    )
    assert caught.value.hint == (
        "free some space there, or set XDG_CACHE_HOME there to another directory"
    )
