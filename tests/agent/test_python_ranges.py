"""The agent's functions for Python code in the program."""

from __future__ import annotations

import sys
from pathlib import Path

from support import raw_logs

from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import State

INJECTED = Path(raw_logs.__file__).parents[2] / "src" / "warpline"
START = f"""
import os, sys
sys.path.insert(0, {str(INJECTED)!r})
from injected.agent import Agent
agent = Agent(os.environ["NVTX_INJECTION64_PATH"])
"""


def ranges(record, code, **options):
    """Return the events of a program in which `agent` is the agent, by log."""
    logs = raw_logs.decode(record(sys.executable, "-c", START + code, **options))
    return [log.events for log in logs]


def test_ranges_have_numbers_at_both_ends(record):
    code = """
name, other = agent.name("nn.Module", "GPT.head"), agent.name("", "plain")
agent.push(name, 12)
agent.push(other, -1)
agent.pop(other, -1)
agent.push(name, 0)
agent.pop(name, 3)
agent.pop(name, 1 << 40)
"""
    (events,) = ranges(record, code)
    assert [(event.kind, event.domain, event.name, event.sequence) for event in events] == [
        ("push", "nn.Module", "GPT.head", 12),
        ("push", "", "plain", None),
        ("pop", "", None, None),
        ("push", "nn.Module", "GPT.head", 0),
        ("pop", "nn.Module", None, 3),
        ("pop", "nn.Module", None, 1 << 40),
    ]


def test_functions_of_the_agent_and_of_ctypes_do_the_same(record):
    code = """
import types
from injected import agent as module
assert isinstance(agent.push, types.BuiltinFunctionType)
name = agent.name("nn.Module", "GPT")
by_ctypes = module._functions(module.ctypes.PyDLL(os.environ["NVTX_INJECTION64_PATH"]))
for push, pop in (agent.push, agent.pop), by_ctypes:
    push(0, 5)
    pop(0, 5)
    push(name, 1)
    pop(name, 2)
try:
    agent.push("name", 1)
except TypeError:
    pass
else:
    sys.exit("a text is no handle")
"""
    (events,) = ranges(record, code)
    assert [(event.kind, event.sequence) for event in events] == [("push", 1), ("pop", 2)] * 2


def test_a_fork_has_ranges_of_its_own(record):
    code = """
name = agent.name("nn.Module", "GPT")
agent.push(name, 1)
if os.fork() == 0:
    agent.push(name, 2)
    agent.pop(name, 3)
    os._exit(0)
os.wait()
agent.pop(name, 4)
"""
    found = ranges(record, code)
    assert sorted([event.sequence for event in events] for events in found) == [[1, 4], [2, 3]]


def test_nothing_is_recorded_without_a_name(record):
    code = "agent.push(0, 1); agent.pop(0, 1); agent.pop(agent.name('a', 'b'), 1)"
    assert ranges(record, code) == []


def test_excluded_domains_are_not_recorded(record):
    code = "agent.push(agent.name('nn.Module', 'GPT'), 1)"
    assert ranges(record, code, config=AgentConfig(domain_exclude=("nn.Module",))) == []


def test_recording_is_known_before_a_range(record):
    code = "agent.name('a', 'b'); print(agent.is_recording())"
    ranges(record, code, prints="1")


def test_a_pause_is_known_before_a_range(record):
    code = "agent.name('a', 'b'); print(agent.is_recording())"
    ranges(record, code, prints="0", state=State.WAITING)


def test_without_a_session_nothing_is_recorded(record):
    code = """
del os.environ["WARPLINE_SESSION"]
print(agent.is_recording(), agent.name("a", "b"))
agent.push(agent.name("a", "b"), 1)
"""
    assert ranges(record, code, prints="0 0") == []
