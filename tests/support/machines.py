"""Another machine for tests: an sshd of their own, on the loopback interface of this one."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.launching import TIMEOUT_S, Ended, environment, until

HOST = "far"  # in the configuration of ssh that `other_machine` makes

_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/pid
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv HOME={home} TMPDIR={temporary} XDG_CACHE_HOME={home}/.cache PATH={path}
"""
_CLIENT = """\
Host {host}
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile {folder}/known_hosts
  LogLevel ERROR
"""
# What login shells print before anything else must not matter.
_NOISE = "echo Welcome to the machine.; echo '{\"error\": 1}'; echo Maintenance at noon. >&2\n"


@dataclass
class Machine:
    """The machine, as its user sees it, and the way to it.

    Attributes:
        home: Its home directory.
        temporary: Where jobs are.
        ssh: The command line of ssh to it.
        server: The process of sshd.
        local: A directory of this machine, where commands run.
    """

    home: Path
    temporary: Path
    ssh: str
    server: subprocess.Popen[bytes]
    local: Path

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment of commands on this machine that reach it."""
        cache = str(self.local / ".cache")
        return environment(WARPLINE_SSH=self.ssh, XDG_CACHE_HOME=cache, **more)

    def start(self, *words: str, **more: object) -> subprocess.Popen[str]:
        """Start ``warpline`` on this machine, in a process group of its own."""
        options: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "process_group": 0,
        }
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return] # options of any type
            [sys.executable, "-m", "warpline", *words],
            cwd=self.local,
            env=self.variables(),
            encoding="utf-8",
            **{**options, **more},
        )

    def run(self, *words: str, given: str = "") -> Ended:
        """Run ``warpline`` on this machine."""
        process = self.start(*words, stdin=subprocess.PIPE)
        out, err = process.communicate(given, timeout=TIMEOUT_S)
        return Ended(process.returncode, out, err)

    def profile(self, *words: str, given: str = "") -> Ended:
        """Run ``warpline profile --host``."""
        return self.run("profile", "--host", HOST, "-t", "nvtx", *words, given=given)

    def jobs(self) -> list[Path]:
        """Return what is left of jobs there."""
        return list(self.temporary.iterdir())

    def connections(self) -> list[int]:
        """Return the server's processes of connections."""
        path = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children")
        return [int(pid) for pid in path.read_text().split()]


@contextlib.contextmanager
def other_machine(folder: Path) -> Iterator[Machine]:
    """Start the server of a machine; skip the test where there is none."""
    server = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if server is None or shutil.which("ssh") is None:
        pytest.skip("OpenSSH's server is not installed (Debian: openssh-server)")
    if os.getuid() == 0:  # it gives up rights in there
        Path("/run/sshd").mkdir(exist_ok=True)
    home, temporary, local = folder / "home", folder / "temporary", folder / "local"
    for path in (home, temporary, local):
        path.mkdir()
    (home / ".bashrc").write_text(_NOISE)
    for name in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    # The last one, for systems whose own Python is older than 3.11.
    search = f"/usr/local/bin:/usr/bin:/bin:{Path(sys.executable).resolve().parent}"
    values = dict(folder=folder, home=home, temporary=temporary, port=port, host=HOST, path=search)  # noqa: C408
    (folder / "sshd_config").write_text(_SERVER.format(**values))
    (folder / "ssh_config").write_text(_CLIENT.format(**values))
    words = [server, "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL)
    try:
        until((folder / "pid").exists)
        yield Machine(home, temporary, f"ssh -F {folder}/ssh_config", process, local)
    finally:
        process.terminate()
        process.wait()
