"""tensor-cores: what looks like a matrix product runs on the FMA pipe."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import SMS, WARP_THREADS, Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.units import format_ratio

NAME = "tensor-cores"
TITLE = "Products run on the FMA pipe, not on Tensor Cores"

_FMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"
_LOADS = "smsp__sass_inst_executed_op_shared_ld.sum"
_INSTRUCTIONS = "smsp__inst_executed.sum"
_HALF = "sm__inst_executed_pipe_fma_type_fp16.avg.pct_of_peak_sustained_elapsed"
_BARRIER = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
_CYCLES = "sm__cycles_elapsed.avg"
_HALF_RATE, _XU_RATE = 2.0, 0.5  # instructions of an SM per cycle
_LEAST_SHARE = 0.2  # of all instructions: FFMAs
_OPERANDS = 16  # FFMAs for each load from shared memory, at most
_CONVERSIONS = 64  # FFMAs for each conversion from half, at most
_FUNCTIONS = 100  # FFMAs for each transcendental function, at least
_UNUSED, _LEAST_FMA = 0.01, 0.05  # of the time: Tensor Cores, the FMA pipe
_FLOP = 2 * WARP_THREADS  # of an FFMA
_INTENSITY = 16  # FLOP for each byte read from DRAM, at least: otherwise DRAM limits any product
_READ = "dram__bytes_read.sum"


@kernel_rule(name=NAME, title=TITLE)
def tensor_cores(launches: Launches) -> list[Proposal]:
    """Kernels with the instructions of a tiled matrix product, but without Tensor Cores.

    What it finds: At least 20% of the instructions are FFMAs whose operands come from shared memory
        behind barriers, with few other functions, at least 16 FLOP for each byte from DRAM, and
        Tensor Cores are idle.
    Why it matters: Tensor Cores have 15 times the rate of FP32 for half precision, and 7 times for
        TF32, on an H100.
    How it is found: By counts of instructions. The floor is the time of the same multiplications at
        the peak rate of Tensor Cores: FP16 if operands are converted from half, otherwise TF32.
    What to do: Call a library (cuBLAS, CUTLASS), or use `wmma` or `mma.sync`.
    Limits: Counters do not show that it is a matrix product: stencils and convolutions look alike.
        The new kernel's tiles and operand paths decide how near it comes to the floor.
    Source: Pair `no_tensor_cores` on an H100: 2,376 us, floor 19 us, 397 us measured with simple
        WMMA.
    """
    is_possible = launches.demands.share("tensor") < _UNUSED
    is_possible &= launches.demands.share("fma") >= _LEAST_FMA
    if not is_possible.any():
        return []
    fma = launches.metric(_FMA) * launches.metric(_CYCLES) / WARP_THREADS
    loads, every = launches.metric(_LOADS), launches.metric(_INSTRUCTIONS)
    cycles = launches.metric(_CYCLES) * launches.metric(SMS)
    half = launches.metric(_HALF) / 100 * _HALF_RATE * cycles
    functions = launches.counted("xu") * _XU_RATE
    share = np.divide(fma, every, out=np.zeros(len(fma)), where=every > 0)
    is_half = half * _CONVERSIONS >= fma
    rate = np.where(is_half, launches.half_flop_per_s, launches.tf32_flop_per_s)
    product_ns = np.divide(fma * _FLOP * 1e9, rate, out=np.zeros(len(fma)), where=rate > 0)
    now = launches.demands.time_ns
    on_tensor = np.divide(product_ns, now, out=np.zeros(len(fma)), where=now > 0)
    looks_like_one = (
        is_possible
        & (share >= _LEAST_SHARE)
        & (loads * _OPERANDS >= fma)
        & (launches.metric(_BARRIER) > 0)
        & (functions * _FUNCTIONS < fma)
        & (fma * _FLOP >= _INTENSITY * launches.metric(_READ))
        & (rate > 0)
    )
    none = np.zeros(len(fma))
    kept = {resource.name: none for resource in RESOURCES}  # tiles decide how much data moves

    def claim(row: int) -> str:
        operands = "FP16" if is_half[row] else "FP32"
        return (
            f"{format_ratio(share[row])} of the instructions are FFMAs on {operands} operands from"
            " shared memory. If this is a matrix product, Tensor Cores can do it."
        )

    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            looks_like_one,
            Change.of(len(launches), kept, added={"tensor": on_tensor}),
            claim,
            "Call cuBLAS or CUTLASS, or use wmma or mma.sync; for FP32 operands TF32, if its"
            " precision is enough.",
            (_FMA, _LOADS, _INSTRUCTIONS, _HALF, *RESOURCES[PLACE["tensor"]].metrics),
            shown_at=ShownAt(("executed",), "executed instructions"),
        )
    ]
