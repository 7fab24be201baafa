"""What annotations record while a profiler is attached, in separate programs."""

from __future__ import annotations

import pytest

from warpline.capture.session.agent_config import AgentConfig


def test_blocks_functions_and_pushes_nest(recorded):
    done = recorded(
        "-c",
        """
import warpline

@warpline.annotate
def plain(): return 1

@warpline.annotate("named", color="red")
def renamed(x, *, y): return x + y

class Model:
    @warpline.annotate()
    def forward(self): return plain()
    @warpline.annotate()
    @staticmethod
    def still(): return 2
    @classmethod
    @warpline.annotate()
    def made(cls): return cls

assert plain.__name__ == "plain"
with warpline.annotate("outer") as span:
    assert (plain(), renamed(1, y=2), Model().forward(), Model.still(), Model.made()) == (
        1, 3, 1, 2, Model)
    warpline.range_push("pushed")
    with span:
        pass
    warpline.range_pop()
""",
    )
    assert done.stderr == ""
    assert done.tree() == [
        "outer",
        "  plain",
        "  named",
        "  Model.forward",
        "    plain",
        "  Model.still",
        "  Model.made",
        "  pushed",
        "    outer",
    ]
    assert {row["name"] for row in done.ranges if row["color"] == 0xFF0000} == {"named"}


def test_attributes_of_ranges_and_marks_are_recorded(recorded):
    done = recorded(
        "-c",
        """
import warpline
from warpline.annotate import end_range, mark, start_range
warpline.range_push("a", 0x123456, "dom", "cat", 7)
warpline.range_pop("dom")
end_range(start_range("b", domain="dom", category=3))
mark("m", color="green", domain="dom", category="cat", payload=2.5)
""",
    )
    pushed, started = done.ranges
    assert (pushed["name"], pushed["domain"], pushed["category"]) == ("a", "dom", "cat")
    assert pushed["color"] == 0x123456
    assert (started["name"], started["style"], started["category"]) == ("b", "StartEnd", "3")
    (instant,) = done.marks
    assert (instant["name"], instant["domain"], instant["color"]) == ("m", "dom", 0x008000)


def test_a_range_closes_when_its_body_raises(recorded):
    done = recorded(
        "-c",
        """
import warpline

@warpline.annotate
def fail(): raise KeyError(1)

for attempt in range(2):
    try:
        with warpline.annotate("block"):
            fail()
    except KeyError:
        pass
""",
    )
    assert done.tree() == ["block", "  fail", "block", "  fail"]
    assert not any(row["is_truncated"] for row in done.ranges)


def test_a_generator_is_in_its_range_while_it_runs(recorded):
    done = recorded(
        "-c",
        """
import inspect, warpline

@warpline.annotate
def steps():
    got = yield 1
    assert got == "sent"
    try:
        yield 2
    except KeyError:
        yield 3
    return "returned"

def all_steps():
    assert (yield from steps()) == "returned"

assert inspect.isgeneratorfunction(steps)
g = all_steps()
assert next(g) == 1
with warpline.annotate("consumer"):
    assert g.send("sent") == 2
assert g.throw(KeyError()) == 3
assert next(g, "end") == "end"
h = steps(); next(h); h.close()
""",
    )
    assert done.stderr == ""
    assert done.tree() == ["steps", "consumer", "  steps", "steps", "steps", "steps", "steps"]


def test_coroutines_have_ranges_that_overlap(recorded):
    done = recorded(
        "-c",
        """
import asyncio, inspect, warpline

@warpline.annotate
async def fetch(event):
    await event.wait()
    return 5

@warpline.annotate
async def numbers():
    for number in range(2):
        await asyncio.sleep(0)
        yield number

async def block(name, event):
    async with warpline.annotate(name):
        await event.wait()

async def main():
    event = asyncio.Event()
    tasks = [asyncio.create_task(task) for task in
             (fetch(event), block("one", event), block("two", event), fetch(event))]
    await asyncio.sleep(0)
    event.set()
    await asyncio.gather(*tasks)
    assert [n async for n in numbers()] == [0, 1]

assert inspect.iscoroutinefunction(fetch)
asyncio.run(main())
""",
    )
    assert done.stderr == ""
    rows = [row for row in done.ranges if row["name"] != "numbers"]
    assert [row["name"] for row in rows] == ["fetch", "one", "two", "fetch"]
    assert {row["style"] for row in done.ranges} == {"StartEnd"}
    assert max(row["start_ns"] for row in rows) < min(row["end_ns"] for row in rows)
    assert sum(row["name"] == "numbers" for row in done.ranges) == 3


def test_threads_share_an_annotation(recorded):
    done = recorded(
        "-c",
        """
import threading, warpline
barrier = threading.Barrier(3)

@warpline.annotate
def work():
    barrier.wait()

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    )
    assert done.tree() == ["work", "--", "work", "--", "work"]


def test_domains_that_are_left_out_cost_no_error(recorded):
    done = recorded(
        "-c",
        """
import warpline
for domain in (None, "kept", "other"):
    with warpline.annotate("x", domain=domain): pass
    warpline.range_push("y", domain=domain); warpline.range_pop(domain)
    warpline.end_range(warpline.start_range("z", domain=domain))
    warpline.mark("m", domain=domain)
""",
        config=AgentConfig(domain_include=("kept",)),
    )
    assert done.stderr == ""
    assert [row["domain"] for row in done.ranges] == ["kept"] * 3
    assert [row["domain"] for row in done.marks] == ["kept"]


@pytest.mark.parametrize("bad", ["color='no such color'", "category=object()", "payload=object()"])
def test_what_nvtx_refuses_is_a_warning_not_an_error(recorded, bad):
    done = recorded("-c", f"import warpline\nwith warpline.annotate('x', {bad}): pass")
    assert done.status == 0
    assert "Warning: " in done.stderr
    assert [row["name"] for row in done.ranges] == ["x"]


def test_many_names_are_not_kept(recorded):
    done = recorded(
        "-c",
        """
import sys, warpline
for number in range(10_000):
    with warpline.annotate(f"n{number}"): pass
print(len(sys.modules["warpline.annotate"]._annotations))
""",
    )
    assert int(done.stdout) < 9000
    assert len({row["name"] for row in done.ranges}) == 10_000


def test_nvtx_disable_turns_annotations_off(recorded):
    done = recorded("-c", "import warpline; warpline.mark('x')", NVTX_DISABLE="1")
    assert (done.status, done.stderr, done.marks) == (0, "", [])
