"""What tests that record programs need."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpline
from warpline import native
from warpline.capture.machine.agent import agent_library


def skip_unless_possible() -> Path:
    """Return the agent; skip the test where it or the native core is not built."""
    try:
        agent = agent_library()
    except warpline.AgentMissingError as error:
        pytest.skip(error.message)
    if native.core() is None:
        pytest.skip("finishing needs the native core")
    return agent
