"""Programs that run already when something is loaded into them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from warpline.capture.attaching.injecting import ATTACH_NAME, Attacher
from warpline.capture.machine.agent import agent_library
from warpline.errors import AgentMissingError

PROGRAMS = Path(__file__).parent / "programs"

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def attacher() -> Attacher:
    """The native library; skips where it is absent or may not trace anything."""
    try:
        path = agent_library().with_name(ATTACH_NAME)
    except AgentMissingError as error:
        pytest.skip(str(error))
    if os.uname().machine != "x86_64":
        pytest.skip("attaching is for x86-64")
    found = Attacher(path)
    child = subprocess.Popen(["sleep", "60"])
    try:
        obstacle = found.obstacle(child.pid)
    finally:
        child.kill()
        child.wait()
    if obstacle is not None and obstacle.is_about_rights:
        pytest.skip(obstacle.cause)
    return found


@pytest.fixture(scope="session")
def compile_program(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Return a function that compiles a file of programs/ and returns the path of what it made.

    WARPLINE_TEST_CFLAGS holds more options: -fsanitize=address for an agent that is built so.
    """
    if shutil.which("cc") is None:
        pytest.skip("no compiler: cc")
    folder = tmp_path_factory.mktemp("programs")

    @functools.cache
    def compiled(source: str, name: str, *options: str) -> Path:
        made = folder / name
        flags = ["-O1", "-Wall", "-Wextra", "-Werror"]
        flags += os.environ.get("WARPLINE_TEST_CFLAGS", "").split()
        command = ["cc", *flags, *options, str(PROGRAMS / source), "-o", str(made)]
        done = subprocess.run(
            [*command, "-ldl", "-lpthread", "-lm"], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return made

    return compiled


@pytest.fixture(scope="session")
def counted(compile_program: Compile) -> Path:
    """A library with a function that counts its calls."""
    return compile_program("counted.c", "libcounted.so", "-shared", "-fPIC")
