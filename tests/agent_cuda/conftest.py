"""The fake CUDA of ``native/agent/tests``: programs that use it, recorded by the agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from support import raw_logs

from warpline.capture.machine.agent import agent_library
from warpline.capture.session.control import RangeMode, State
from warpline.capture.session.session import Session
from warpline.errors import AgentMissingError

Run = Callable[..., Path]


class FakeCuda:
    """The libraries and the program, as the build made them."""

    def __init__(self, folder: Path, agent: Path) -> None:
        self.agent = agent
        self.driver = folder / "libcuda.so.1"
        self.program = folder / "cuda_app"
        self.cupti12 = folder / "cupti12" / "libcupti.so.12"
        self.cupti12_bare = folder / "cupti12_bare" / "libcupti.so.12"
        self.cupti13 = folder / "cupti13" / "libcupti.so.13"
        self.cupti13_4 = folder / "cupti13_4" / "libcupti.so.13"
        self.cupti13_3 = folder / "cupti13_3" / "libcupti.so.13"

    def command(self, *words: object, cupti: Path | None = None) -> list[str]:
        """Return the command line of the program."""
        return [str(word) for word in (self.program, self.driver, cupti or self.cupti13, *words)]

    def environment(self, session: Session | None, **more: str) -> dict[str, str]:
        """Return the program's environment, as the launcher sets it."""
        variables = {"CUDA_INJECTION64_PATH": str(self.agent), "LD_LIBRARY_PATH": ""}
        of_session = session.variables(self.agent) if session is not None else {}
        return {**os.environ, **of_session, **variables, **more}


@pytest.fixture(autouse=True)
def _no_choice_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fake's GPUs be numbered as on a machine without a choice of its own."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture(scope="session")
def cuda() -> FakeCuda:
    """The fake CUDA, if it was built beside the agent."""
    try:
        agent = agent_library()
    except AgentMissingError as error:
        pytest.skip(str(error))
    fake = FakeCuda(agent.parent / "agent" / "tests", agent)
    if not fake.program.exists():
        pytest.skip("the fake CUDA is not built: cmake -DWARPLINE_TESTS=ON")
    return fake


def configure(session: Session, **keys: object) -> None:
    """Add keys to a session's agent.conf; a list repeats its key."""
    lines = []
    for key, value in keys.items():
        values = value if isinstance(value, list) else [value]
        lines += [f"{key}={quote(str(one), safe='')}\n" for one in values]
    with (session.folder / "agent.conf").open("a") as file:
        file.writelines(lines)


@pytest.fixture
def session(tmp_path: Path) -> Callable[..., Session]:
    """Return a function that makes a session with keys for agent.conf."""
    made = 0

    def make(
        state: State = State.RECORDING,
        mode: RangeMode = RangeMode.NONE,
        windows_wanted: int = 0,
        **keys: object,
    ) -> Session:
        nonlocal made
        made += 1
        folder = tmp_path / f"run{made}.warpline.raw"
        new = raw_logs.make_session(folder, state=state, mode=mode, windows_wanted=windows_wanted)
        configure(new, **keys)
        return new

    return make


@pytest.fixture
def nvml(cuda: FakeCuda) -> dict[str, str]:
    """The environment in which the fake library for managing GPUs is found; it knows device 1."""
    folder = cuda.program.parent / "nvml"
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_PLACE": "00000001:ab:01.0"}


@pytest.fixture
def run(cuda: FakeCuda, session: Callable[..., Session]) -> Run:
    """Return a function that records the program and returns the session's folder.

    It takes the program's words; `cupti`, the library; `environment`; `status`, what the program
    must exit with; and the session's state, mode and keys.
    """

    def record(
        *words: object,
        cupti: Path | None = None,
        environment: dict[str, str] | None = None,
        status: int = 0,
        **options: object,
    ) -> Path:
        library = cupti or cuda.cupti13
        keys: dict[str, object] = {"cuda": 1, "cupti_path": [library], **options}
        new = session(**keys)
        done = subprocess.run(
            cuda.command(*words, cupti=library),
            env=cuda.environment(new, **(environment or {})),
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, done.stderr
        assert done.stderr == ""
        (new.folder / "stdout").write_text(done.stdout)
        return new.folder

    return record
