"""Faults that several rules about kernels ask for: one claims it, and others leave it alone."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters.block_limits import block_limits, limits_of_launches
from warpline.derived.kernel_limits.launches import BLOCK, INSTRUCTIONS, Launches
from warpline.ops.arrays import F64, BoolArray

SHARED_LOADS, SHARED_STORES = (
    f"smsp__sass_inst_executed_op_shared_{of}.sum" for of in ("ld", "st")
)
SHARED_ATOMICS = "smsp__inst_executed_op_shared_atom.sum"
ATOMIC_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
COPIES_AHEAD = tuple(f"smsp__inst_executed_op_{of}.sum" for of in ("ldgsts", "tma_ld"))
LOAD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LOCAL_REQUESTS = tuple(f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st"))
SPILLS = "derived__local_spilling_requests"
REGISTERS = "launch__registers_per_thread"
WAVES = "launch__waves_per_multiprocessor"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"

_REGISTER_STEP = 8  # in which registers are given to the threads of a warp
_MOST_REGISTERS = 255
_STORES_OF_LOAD = 4  # to shared memory for each load of global memory, at most: a tile is staged
_LEAST_WAIT = 0.3  # of a warp's time
_LEAST_OF_L1 = 0.3  # of the time: wavefronts of atomics
_CONTENDED = 2.0  # wavefronts of an atomic instruction
_FEW_THREADS, _LEAST_OF_INSTRUCTIONS = 24, 0.03  # of instructions in loops of compare and swap
_FEW_WAVES, _LEAST_IDLE = 6, 0.1  # of the slots of all waves: those that the last one leaves empty


def waits_at_barriers(launches: Launches) -> BoolArray:
    """Return whether warps wait at barriers for much of the time, and more than for memory."""
    barrier, memory = launches.waiting("barrier"), launches.waiting("long_scoreboard")
    waits: BoolArray = (barrier >= _LEAST_WAIT) & (barrier > memory)
    return waits


def stages_without_copies_ahead(launches: Launches) -> BoolArray:
    """Return whether tiles are loaded to shared memory and waited for, without copies ahead."""
    loads, stores = launches.metric(LOAD_REQUESTS), launches.metric(SHARED_STORES)
    copied = sum(launches.metric(name) for name in COPIES_AHEAD)
    barrier, memory = launches.waiting("barrier"), launches.waiting("long_scoreboard")
    is_staged = (stores > 0) & (2 * stores >= loads) & (stores <= _STORES_OF_LOAD * loads)
    is_staged &= launches.metric(SHARED_LOADS) >= stores
    waits = (barrier > 0) & (memory >= barrier) & (memory + barrier >= _LEAST_WAIT)
    return is_idle(launches) & is_staged & waits & launches.has(*COPIES_AHEAD) & (copied == 0)


def is_idle(launches: Launches) -> BoolArray:
    """Return whether no resource is busy, so that latency governs the time."""
    idle: BoolArray = launches.demands.used.max(axis=1, initial=0) < launches.ceilings.busy
    return idle


def contends_for_shared_memory(launches: Launches) -> BoolArray:
    """Return whether atomics on shared memory wait for each other for much of the time.

    The hardware adds integers, with a wavefront for each thread of the same address. What it cannot
    add is a loop of compare and swap, in which ever fewer threads take part.
    """
    wavefronts, atomics = launches.metric(ATOMIC_WAVEFRONTS), launches.metric(SHARED_ATOMICS)
    of_l1 = launches.ratio(wavefronts, launches.counted("l1-data")) * launches.demands.share(
        "l1-data"
    )
    adds = (wavefronts >= _CONTENDED * atomics) & (of_l1 >= _LEAST_OF_L1)
    threads = launches.metric(THREADS)
    swaps = (threads > 0) & (threads < _FEW_THREADS)
    swaps &= atomics >= _LEAST_OF_INSTRUCTIONS * launches.metric(INSTRUCTIONS)
    contends: BoolArray = (atomics > 0) & (adds | swaps)
    return contends


def spilled(launches: Launches) -> F64:
    """Return the part of local memory's requests that are spilled registers, shape (launches,).

    ncu counts them. Otherwise, all of them are where the compiler used each register that a limit
    leaves it: the next step would take a block from the SM, or there is none.
    """
    every = np.sum([launches.metric(name) for name in LOCAL_REQUESTS], axis=0)
    counted = launches.ratio(launches.metric(SPILLS), every)
    registers = launches.metric(REGISTERS)
    limits, threads = limits_of_launches(launches.trace), launches.metric(BLOCK)
    blocks, fewer = (
        block_limits(limits, threads, of, np.zeros(len(launches))).registers
        for of in (registers, registers + _REGISTER_STEP)
    )
    is_at_limit = (registers % _REGISTER_STEP == 0) & (fewer < blocks)
    is_at_limit |= registers >= _MOST_REGISTERS - 1
    guessed = np.where((registers > 0) & is_at_limit, 1.0, 0.0)
    found: F64 = np.where(launches.has(SPILLS), counted, guessed)
    return found


def last_wave(launches: Launches) -> F64:
    """Return the part of all waves' slots that blocks fill, 1 where no wave is nearly empty.

    Shape (launches,). After many waves blocks no longer start together, so none is the last.
    """
    waves = launches.metric(WAVES)
    full = launches.ratio(waves, np.ceil(waves))
    is_partial = launches.has(WAVES) & (waves > 1) & (waves <= _FEW_WAVES)
    found: F64 = np.where(is_partial & (full < 1 - _LEAST_IDLE), full, 1.0)
    return found
