"""How to overlap communication with compute, by the collective that takes most of its time.

DistributedDataParallel, for example, only overlaps all-reduces of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.program import has_range, is_training, program_kind
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.result import Program
from warpline.trace import Trace

_DDP = "DistributedDataParallel"
_ALL_TO_ALLS = ("all_to_all", "alltoall", "AllToAll")


class Advice(NamedTuple):
    """What to change, as a finding has it: for PyTorch, for CUDA C++, and for other programs.

    `in_buckets` is false for all-reduces of activations: the next layer needs each result at once.
    """

    fix: str
    fix_cuda: str
    fix_in: Mapping[Program, str]
    in_buckets: bool = True


_CUDA = (
    "Launch each collective on a separate stream, after an event of its last producer, and make"
    " the compute stream wait for it only before the first use."
)
_CUDA_REST = (
    "Start the exposed collectives earlier, each after an event of its data's producer, on a"
    " stream of its own, and reduce in BF16."
)
_BUCKETS_CUDA = (
    "Group small buffers into buckets of tens of MB (ncclGroupStart). Launch each bucket on a"
    " separate stream, after an event of its last producer."
)
_JAX: Mapping[Program, str] = {
    "jax": "Let XLA overlap collectives with compute: set"
    " --xla_gpu_enable_latency_hiding_scheduler=true in XLA_FLAGS, and compile the whole step with"
    " one jax.jit."
}
_ALL_REDUCE = (
    "Overlap communication with the backward pass: use"
    " DistributedDataParallel(gradient_as_bucket_view=True) or FSDP, not per-tensor all-reduces"
    " after it."
)
_ALL_REDUCE_IN_DDP = (
    "Let DistributedDataParallel send gradients during the backward pass: tune bucket_cap_mb, set"
    " gradient_as_bucket_view=True and, if the graph is constant, static_graph=True. Accumulate"
    " gradients in no_sync(), or reduce them in BF16 (bf16_compress_hook)."
)
# Where most of it is overlapped: what remains is before the first or after the last compute.
_ALL_REDUCE_REST = (
    "Start the exposed collectives earlier or make them shorter: tune the bucket size"
    " (bucket_cap_mb), reduce in BF16, accumulate gradients over several batches, and shard the"
    " optimizer's work (ZeRO, FSDP with prefetching)."
)
_ALL_REDUCE_OF_ACTIVATIONS = (
    "Split the batch in two and compute one half while the other is reduced. Use sequence"
    " parallelism (reduce-scatter and all-gather instead of all-reduce), or fewer GPUs per tensor."
)
_SHARDS = (
    "Prefetch shards: with FSDP, set forward_prefetch=True and"
    " backward_prefetch=BackwardPrefetch.BACKWARD_PRE, or call set_modules_to_forward_prefetch"
    " (FSDP2). Wrap each layer on its own. If limit_all_gathers delays the CPU and memory allows,"
    " turn it off."
)
_ALL_TO_ALL = (
    "Split tokens or heads into chunks, and send one chunk on a separate stream while the previous"
    " one is computed. Compute what needs no exchange, such as shared experts, meanwhile."
)
_POINT_TO_POINT = (
    "Post sends and receives early (batch_isend_irecv), and wait for each only before its data is"
    " used. In a pipeline, use more micro-batches or an interleaved schedule."
)
_BROADCAST = (
    "Broadcast once, not in every step: with DistributedDataParallel, set broadcast_buffers=False"
    " if ranks need no common buffers. Otherwise use async_op=True, and wait() before the first"
    " use."
)
_ANY = (
    "Start the collective with async_op=True as soon as its data is ready, compute what does not"
    " depend on it, and call wait() before the first use of the result."
)
_OF_OPERATION = {
    "AllGather": _SHARDS,
    "AllGatherV": _SHARDS,
    "ReduceScatter": _SHARDS,
    "AllToAll": _ALL_TO_ALL,
    "Dispatch": _ALL_TO_ALL,
    "Combine": _ALL_TO_ALL,
    "SendRecv": _POINT_TO_POINT,
    "Send": _POINT_TO_POINT,
    "Recv": _POINT_TO_POINT,
    "Broadcast": _BROADCAST,
}


def overlap_advice(trace: Trace, collectives: BoolArray, *, is_overlapped: bool) -> Advice:
    """Return how to overlap the collectives with compute.

    Args:
        trace: The trace.
        collectives: Shape (operations,), bool, which operations are collectives.
        is_overlapped: Whether much of their time is overlapped already.
    """
    operation = longest_operation(trace, collectives)
    if operation != "AllReduce":
        return Advice(_OF_OPERATION.get(operation, _ANY), _CUDA, _JAX)
    fix = _all_reduce(trace, is_overlapped=is_overlapped)
    fix_cuda = _CUDA_REST if is_overlapped else _BUCKETS_CUDA
    is_at_once = fix == _ALL_REDUCE_OF_ACTIVATIONS and program_kind(trace) == "pytorch"
    return Advice(fix, fix_cuda, _JAX, in_buckets=not is_at_once)


def longest_operation(trace: Trace, collectives: BoolArray) -> str:
    """Return the name of the operation with the longest total time; empty if unknown or none."""
    work = operations(trace)
    places = np.flatnonzero(collectives)
    if not len(places):
        return ""
    kinds = collective_kinds(trace, places)
    length = (work.end_ns - work.start_ns)[places].astype(np.float64)
    sums = np.bincount(kinds.operation, length, len(kinds.operations))
    longest = kinds.operations[int(np.argmax(sums))]
    # NCCL makes an all-to-all of sends and receives.
    is_exchange = longest == "SendRecv" and has_range(trace, *_ALL_TO_ALLS)
    return "AllToAll" if is_exchange else longest


def _all_reduce(trace: Trace, *, is_overlapped: bool) -> str:
    has_ddp = has_range(trace, _DDP)
    if not has_ddp and not is_training(trace):
        return _ALL_REDUCE_OF_ACTIVATIONS
    if is_overlapped:
        return _ALL_REDUCE_REST
    return _ALL_REDUCE_IN_DDP if has_ddp else _ALL_REDUCE
