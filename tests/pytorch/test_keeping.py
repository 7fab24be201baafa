"""``--keep-last`` with ``--pytorch``: names of modules stay, however long ago they were told."""

from __future__ import annotations

import pytest
from pytorch import recorded
from support import launching

import warpline

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

# Whatever a step takes, most are older than the second that is kept, or than a dump.
LOOP = """
import time
model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(30):
    model(tokens).sum().backward()
    optimizer.step()
    time.sleep(0.1)
"""


def test_the_last_calls_of_modules_are_kept_and_all_modules_known(tmp_path):
    command = launching.python(tmp_path, recorded.MODEL + LOOP)
    flags = ["-o", "run", "-q", "-t", "nvtx", "--pytorch=all", "--keep-last=1s"]
    ended = launching.profile(tmp_path, *flags, "--", *command)
    assert ended.status == 0, ended.err
    trace = warpline.open(tmp_path / "run.warpline")
    found = recorded.names(trace)
    steps = found.count("GPT")
    assert 1 <= steps < 20
    # The range of a call that began before what is kept ends in it.
    assert {path: abs(found.count(path) - steps) <= 1 for path in recorded.PATHS} == dict.fromkeys(
        recorded.PATHS, True
    )
    assert {*recorded.PATHS} <= {*trace["module"]["name"].to_list()}
    assert any("are recorded (--keep-last)" in text for text in trace.meta.warnings)
