"""Programs whose CPU and Python stacks are sampled: by perf events, by timers, from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpline.capture.machine.agent import agent_library
from warpline.errors import AgentMissingError


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's library, with the sampler and the preloaded libraries beside it."""
    try:
        return agent_library()
    except AgentMissingError as error:
        pytest.skip(str(error))
