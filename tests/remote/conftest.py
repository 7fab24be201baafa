"""Another machine, reached by ssh, for all tests of this directory that a worker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.launching import needs_agent
from support.machines import Machine, other_machine


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One for the session, so that Warpline is copied once."""
    needs_agent()
    with other_machine(tmp_path_factory.mktemp("machine")) as found:
        yield found


@pytest.fixture
def machine(shared: Machine) -> Iterator[Machine]:
    """The machine, of which every test leaves nothing but what it says."""
    yield shared
    for path in shared.jobs():
        pytest.fail(f"{path} is left there")
