"""The kernels of compiled code are recorded, and Inductor's caches are hit as without Warpline."""

from __future__ import annotations

import json

import pytest
from pytorch import recorded
from pytorch.recorded import names

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

TRAINED = """
from torch._dynamo.utils import counters

compiled = torch.compile(GPT())
for _ in range(2):
    compiled(tokens).square().mean().backward()
caches = {name: n for name, n in counters["inductor"].items() if "cache" in name}
print(json.dumps([counters["stats"], counters["frames"], caches, counters["aot_autograd"]]))
"""


def test_kernels_have_modules_also_where_they_come_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    # The run without Warpline fills the cache, so the recorded one hits it.
    cached = recorded.run(_made(tmp_path / "cached"), "import json" + TRAINED, words="modules")
    # Without autograd's cache, its graph is there, and only what Inductor makes of it is cached.
    monkeypatch.setenv("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")
    fresh = recorded.run(_made(tmp_path / "fresh"), "import json" + TRAINED, words="modules")
    assert json.loads(fresh.out) == json.loads(fresh.plain)
    stats, frames, caches, _ = json.loads(cached.out)
    assert [stats, frames] == json.loads(cached.plain)[:2]
    assert caches.get("fxgraph_cache_hit") == 2
    assert "fxgraph_cache_miss" not in caches

    calls = names(cached.trace, "torch.compile")
    assert calls == ["CompiledFxGraph 0/0 forward", "CompiledFxGraph 0/0 backward"] * 2
    rows = [_products(each.trace) for each in (cached, fresh)]
    assert rows[0] == rows[1]
    assert ("GPT.blocks.1.attn.qkv", "Linear", False) in rows[0]
    assert ("GPT.blocks.1.attn.qkv", "Linear", True) in rows[0]
    assert {module for module, *_ in rows[0]} >= {"GPT.head", "GPT.blocks.0.attn.proj"}


def _made(folder):
    folder.mkdir()
    return folder


def _products(trace):
    """Return module, class and direction of matrix products."""
    return [
        (row["module"], row["class_name"], row["is_backward"])
        for row in trace["compiled_kernel"].to_dicts()
        if row["kernel"] in {"mm", "addmm"}
    ]
