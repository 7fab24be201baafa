"""Programs that call NVTX, compiled once, and sessions for them to record into."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import raw_logs

from warpline.capture.machine.agent import agent_library
from warpline.capture.session.session import Session
from warpline.errors import AgentMissingError

PROGRAMS = Path(__file__).parent / "programs"

Compile = Callable[..., Path]
Record = Callable[..., Path]


@functools.cache
def nvtx_include() -> Path | None:
    """Return the folder of NVIDIA's NVTX headers, the payload extension's included, if any."""
    found = importlib.util.find_spec("nvidia")
    parents = list(found.submodule_search_locations or []) if found else []
    folders = [Path(parent) / "cu13" / "include" for parent in parents]
    folders.append(Path("/usr/local/cuda/include"))
    for folder in folders:
        if (folder / "nvtx3" / "nvToolsExtPayload.h").is_file():
            return folder
    return None


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's library."""
    try:
        return agent_library()
    except AgentMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def compile_program(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Return a function that compiles a file of programs/ and returns the program's path.

    WARPLINE_TEST_CFLAGS holds more options: -fsanitize=thread for an agent that is built so.
    """
    include = nvtx_include()
    if include is None:
        pytest.skip("no headers of NVTX: pip install nvidia-nvtx")
    folder = tmp_path_factory.mktemp("programs")

    @functools.cache
    def compiled(source: str, *options: str, name: str | None = None) -> Path:
        compiler = "c++" if source.endswith(".cpp") else "cc"
        if shutil.which(compiler) is None:
            pytest.skip(f"no compiler: {compiler}")
        program = folder / (name or Path(source).stem)
        flags = ["-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror"]
        flags += os.environ.get("WARPLINE_TEST_CFLAGS", "").split()
        command = [compiler, *flags, f"-isystem{include}", str(PROGRAMS / source)]
        done = subprocess.run(
            [*command, "-o", str(program), f"-L{folder}", *options, "-ldl", "-lpthread"],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return program

    return compiled


@pytest.fixture
def record(agent: Path, tmp_path: Path) -> Record:
    """Return a function that runs a command in a new session and returns the session's folder.

    The keyword ``prints`` is what the command is to print; others go to ``make_session``.
    """

    def run(*command: str | Path, prints: str | None = None, **options: object) -> Path:
        session: Session = raw_logs.make_session(tmp_path / "session", **options)  # type: ignore[arg-type]
        output = raw_logs.run_program(session, agent, command)
        if prints is not None:
            assert output.split() == prints.split()
        session.close()
        return session.folder

    return run
