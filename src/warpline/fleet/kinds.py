"""The kind of a parallel group, by its collectives.

Tensor-parallel ranks meet in each layer, from the first to the last one of a step. Data-parallel
ones meet during or after the backward pass, so that a large part of each step has no such
collective. If parameters are sharded, they are gathered layer by layer first.
"""

from __future__ import annotations

import re
from typing import Literal

from warpline.fleet.traffic import Traffic

Kind = Literal["tensor", "pipeline", "data", "sharded-data", "context", "expert", "all", "unclear"]

_LATE = 0.4  # of a step without collectives: the forward pass and more
_FORWARD = 0.2  # of a step: a forward pass takes more
_OVERLAPPED = 0.25  # hidden: beyond, computing does not depend on the result
_WAITED_FOR = 0.1
_EACH_LAYER = 4  # collectives per step: fewer are not those of layers
_ALWAYS = 0.25  # of the collectives are in the first half of the step's sends and receives
_UNITS = 3  # all-gathers before the first reduce-scatter: sharded parameters of several layers
_ALTERNATE = 0.5  # of the reduce-scatters follow each other at most
_FEW_SIZES = 2

# The words of frameworks in names of communicators.
_WORDS: dict[str, Kind] = {
    **dict.fromkeys(("tp", "tensor"), "tensor"),
    **dict.fromkeys(("cp", "context", "ulysses"), "context"),
    **dict.fromkeys(("ep", "expert", "experts", "moe"), "expert"),
    **dict.fromkeys(("fsdp", "shard", "sharded"), "sharded-data"),
    **dict.fromkeys(("dp", "data", "ddp", "replicate", "replica"), "data"),
}


def kind_of(traffic: Traffic) -> tuple[Kind, str]:
    """Return the kind of a group, and what shows it."""
    named = _named(traffic)
    if named is not None:
        return named
    calls = traffic.calls
    if calls.get("AllToAll", 0.0) >= 1.0:
        if traffic.sizes > _FEW_SIZES:
            return "expert", "all-to-alls whose sizes differ from call to call"
        return (
            "unclear",
            "all-to-alls of equal sizes: of experts, or of sequence-parallel attention",
        )
    scatters = calls.get("ReduceScatter", 0.0)
    gathers = calls.get("AllGather", 0.0) + calls.get("AllGatherV", 0.0)
    if scatters >= 1.0 and gathers >= 1.0:
        return _sharded(traffic, scatters)
    if calls.get("AllReduce", 0.0) >= 1.0:
        return _reduced(traffic, calls["AllReduce"])
    return "unclear", "too few collectives per step"


def _named(traffic: Traffic) -> tuple[Kind, str] | None:
    """Return the kind by the program's name of a communicator; None if it has no known word."""
    kinds = {
        (_WORDS[word], label)
        for label in traffic.labels
        for word in re.split(r"[^a-z]+", label.lower())
        if word in _WORDS
    }
    if len({kind for kind, _ in kinds}) != 1:
        return None
    kind, label = min(kinds)
    return kind, f"the program calls the communicator `{label}`"


def _sharded(traffic: Traffic, scatters: float) -> tuple[Kind, str]:
    if traffic.gathers_first >= _UNITS:
        return "sharded-data", "parameters are gathered layer by layer, gradients scattered later"
    if scatters >= _EACH_LAYER and traffic.scatter_run < _ALTERNATE:
        return "tensor", "all-gathers and reduce-scatters take turns from the start of a step"
    if traffic.gap >= _FORWARD:
        return "sharded-data", "gradients are scattered and parameters gathered once per step"
    return "unclear", "all-gathers and reduce-scatters in no known order"


def _reduced(traffic: Traffic, reduces: float) -> tuple[Kind, str]:
    in_layers = "all-reduces all along the step, which the next kernels wait for"
    late = "gradients are reduced"
    if traffic.early is not None:
        if traffic.early >= _ALWAYS and reduces >= _EACH_LAYER:
            return "tensor", in_layers
        if traffic.early <= 0.0:
            return "data", f"{late} after the microbatches"
        return "unclear", "few all-reduces, some between the microbatches"
    if traffic.gap >= _LATE or (traffic.gap >= _FORWARD and traffic.hidden >= _OVERLAPPED):
        return "data", f"{late} in a part of each step"
    if reduces >= _EACH_LAYER and traffic.hidden < _WAITED_FOR:
        return "tensor", in_layers
    return "unclear", "all-reduces all along the step, partly hidden"
