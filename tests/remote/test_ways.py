"""Ways to a machine: through another one, and with something that ssh asks for."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.machines import HOST, Machine, other_machine

SECRET = "open, sesame"
RECORDING = "run.sqlite"
MODULE = [sys.executable, "-m", "warpline"]
OF_TERMINAL = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
# Without a terminal: of none that this process has either.
OF_NONE = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"


def folder_of(machine: Machine) -> Path:
    return machine.local.parent


def config_of(machine: Machine) -> str:
    return (folder_of(machine) / "ssh_config").read_text()


@pytest.fixture
def there(machine: Machine, data_dir: Path) -> str:
    """The name of a recording there."""
    shutil.copy(
        data_dir.parents[1] / "src/warpline/data/pageable_h2d.bad.sqlite", machine.home / RECORDING
    )
    return f"{HOST}:{RECORDING}"


@pytest.mark.parametrize("is_configured", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_machine_is_reached_through_another_one(
    machine: Machine, there: str, tmp_path: Path, is_configured: bool
) -> None:
    with other_machine(tmp_path) as jump:
        text = config_of(jump).replace(f"Host {HOST}", "Host jump") + config_of(machine)
        config = tmp_path / "both"
        config.write_text(text + ("  ProxyJump jump\n" if is_configured else ""))
        way = f"ssh -F {config}" + ("" if is_configured else " -J jump")
        done = subprocess.run(
            [*MODULE, "stats", "-r", "cuda_gpu_kern_sum", there],
            env={**machine.variables(), "WARPLINE_SSH": way, "XDG_CACHE_HOME": str(tmp_path)},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "Accepted publickey" in (tmp_path / "log").read_text()
    assert f"note: copied {there} (" in done.stderr


@dataclass
class Locked:
    """A way to a machine with a key that has a passphrase.

    Attributes:
        environment: The environment of commands that go it.
        command: One.
    """

    environment: dict[str, str]
    command: list[str]


@pytest.fixture
def locked(machine: Machine, there: str, tmp_path: Path) -> Locked:
    key = tmp_path / "locked_key"
    shutil.copy(folder_of(machine) / "user_key", key)
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", SECRET, "-f", str(key)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    text = config_of(machine).replace(str(folder_of(machine) / "user_key"), str(key))
    (tmp_path / "config").write_text(f"{text}  IdentityAgent none\n")
    way = {"WARPLINE_SSH": f"ssh -F {tmp_path}/config", "XDG_CACHE_HOME": str(tmp_path)}
    words = ["stats", "-r", "cuda_gpu_kern_sum", there]
    environment = {**machine.variables(TERM="dumb"), **way}
    for name in ("SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"):
        environment.pop(name, None)
    return Locked(environment, [*MODULE, *words])


def read_until(terminal: int, is_enough: Callable[[bytes], bool]) -> bytes:
    """Read from a terminal until something was read, or its other end is closed."""
    read = b""
    while not is_enough(read):
        assert select.select([terminal], [], [], 60)[0], read
        try:
            read += os.read(terminal, 4096)
        except OSError:
            break
    return read


def test_what_ssh_asks_for_is_asked_on_the_terminal_once(locked: Locked) -> None:
    terminal, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", OF_TERMINAL, *locked.command],
        env=locked.environment,
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    asked = read_until(terminal, lambda read: b"Enter passphrase" in read and b": " in read)
    assert b"Enter passphrase" in asked
    os.write(terminal, SECRET.encode() + b"\n")
    said = read_until(terminal, lambda _: False)
    os.close(terminal)
    assert process.wait(60) == 0, said
    assert b"Enter passphrase" not in said
    assert b"note: copied " in said


@pytest.mark.slow
def test_without_a_terminal_the_answer_comes_from_a_program_of_the_user(
    locked: Locked, tmp_path: Path
) -> None:
    asking = tmp_path / "asking"
    asking.write_text(f'#!/bin/sh\necho asked >> "{tmp_path}/asked"\necho "{SECRET}"\n')
    asking.chmod(0o700)
    more = {"SSH_ASKPASS": str(asking), "SSH_ASKPASS_REQUIRE": "force"}
    done = subprocess.run(
        [sys.executable, "-c", OF_NONE, *locked.command],
        env={**locked.environment, **more},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_without_either_it_fails_and_says_why(locked: Locked) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_NONE, *locked.command],
        env=locked.environment,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    assert "Permission denied (publickey" in lines[0]  # of ssh
    assert lines[1] == f"error: no connection to {HOST}"
    assert lines[2].startswith("hint: ")
    assert lines[2].endswith("comes from ssh-agent or SSH_ASKPASS only")
