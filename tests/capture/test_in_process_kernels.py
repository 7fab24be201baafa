"""``with warpline.kernels(...)``: programs that count their own kernels, with a fake GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.launching import environment, needs_agent

import warpline
from warpline.capture.in_process.kernels import Kernels, Options

TESTS = str(Path(__file__).parents[1])
CODE = """
import json, os, sys, warnings
from pathlib import Path
sys.path.insert(0, {tests!r})
import warpline
import capture.test_prepare as fakes
from warpline.capture.counting import prepare
from warpline.capture.machine.gpus import Gpus
from warpline.capture.machine.obstacles import obstacle
prepare.HostProcess = fakes.Host
asked = []
def found(*_):
    asked.append(1)
    return Gpus((fakes.gpu(problem=obstacle({status})),), fakes.CUPTI)
prepare.find_gpus = found
def config():
    return Path(os.environ["WARPLINE_SESSION"], "agent.conf").read_text().splitlines()
"""


def run(folder: Path, code: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python code in a directory; counters fail with a status of CUPTI."""
    needs_agent()
    return subprocess.run(
        [sys.executable, "-c", CODE.format(tests=TESTS, status=status) + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment(TMPDIR=str(folder)),
        timeout=60,
    )


def test_a_block_and_a_function_are_counted(tmp_path):
    done = run(
        tmp_path,
        """
with warpline.kernels("run", metrics=["sm__inst_executed.sum"], kernel_name="regex:a|b") as it:
    block = config()
@warpline.kernels.measure(set="light", launch_count=3)
def step(x):
    "A step."
    return x, config()
one, two = step(1), step(x=2)
print(json.dumps([block, one, two, step.__name__, step.__doc__, len(asked), it.path.name]))
assert step.trace.meta.producer.startswith("Warpline")
assert repr(it).startswith("<warpline.kernels /")
""",
    )
    block, one, two, name, doc, asked, path = json.loads(done.stdout)
    assert {"counters=1", "counter_name_regex=a%7Cb", "counter_sample=0", "nvtx=0"} <= set(block)
    assert "counter_metric=sm__inst_executed.sum%20inst" in block
    assert "cuda_kernel=0" in block
    assert (one[0], two[0], name, doc, path) == (1, 2, "step", "A step.", "run.warpline")
    assert "counter_count=3" in one[1]
    assert asked == 2  # planned once for the block, and once for the function
    warnings = done.stderr.splitlines()
    assert all("no kernel was counted" in line for line in warnings)
    assert len(warnings) == 2  # Python shows that of the second call no more
    assert sorted(item.name for item in tmp_path.iterdir()) == ["run.warpline"]


def test_without_rights_a_timeline_is_recorded(tmp_path):
    done = run(
        tmp_path,
        """
with warpline.kernels("run") as it:
    print(json.dumps(config()))
try:
    warpline.kernels("other", set="full").start()
except warpline.WarplineError as error:
    print(error.message)
""",
        status=35,
    )
    config, error = done.stdout.splitlines()
    assert "counters=1" not in json.loads(config)
    assert "cuda_api=calls" in json.loads(config)
    assert "no counters: this user may not read GPU counters" in done.stderr
    assert error.startswith("this user may not read GPU counters")
    assert [item.name for item in tmp_path.iterdir()] == ["run.warpline"]


def test_wrong_options_are_named_at_once():
    with pytest.raises(warpline.UsageError, match="unknown option 'metric'"):
        warpline.kernels.measure(metric="a")  # type: ignore[call-arg]
    with pytest.raises(warpline.UsageError, match="replay_mode='application'"):
        warpline.kernels(replay_mode="application")
    assert isinstance(warpline.kernels(set=["basic"]), Kernels)
    assert set(Options.__annotations__) >= {"metrics", "set", "section"}
    assert not os.path.lexists("report1.warpline")
