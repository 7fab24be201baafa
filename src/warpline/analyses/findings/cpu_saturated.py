"""cpu-saturated: all CPU cores are busy while the GPU waits for the CPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import measured_parts
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.health.readings import MACHINE, Readings, host_readings, machine_readings
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import IDLE, NOT_OF_CPU
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.tiling import Grouped, cut
from warpline.result import Evidence, Finding, Skipped, rule
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio

NAME = "cpu-saturated"
TITLE = "All CPU cores are busy"

_FULL = 0.95  # of the cores
_THROTTLED = 0.05  # of the time
_OF_CPU = tuple(part for part in IDLE if part not in NOT_OF_CPU)
_SHOWN = 5


class _Load(NamedTuple):
    """The load of CPU cores between readings of the machine, k of them.

    Attributes:
        row: Shape (k,), int64, rows of host_health at the end of each time.
        start_ns: Shape (k,), int64.
        end_ns: Shape (k,), int64.
        machine: Shape (k,), float64, CPU time of the machine as a share of its cores; 0 if unknown.
        program: Shape (k,), float64, that of the program as a share of the cores that it may use.
        throttled: Shape (k,), float64, share of the time in which a CPU limit stopped threads.
    """

    row: I64
    start_ns: I64
    end_ns: I64
    machine: F64
    program: F64
    throttled: F64

    @property
    def is_full(self) -> BoolArray:
        """Shape (k,), whether no core is left."""
        full: BoolArray = (self.machine >= _FULL) | (self.program >= _FULL)
        full |= self.throttled >= _THROTTLED
        return full


@rule(name=NAME, title=TITLE)
def cpu_saturated(run: Run) -> list[Finding] | Skipped:
    """CPU cores that are all busy while the GPU is idle for a reason on the CPU.

    What it finds: Idle time of the GPU that waits for the CPU, of at least 5% of the step, while at
        least 95% of the CPU time of all cores is used, or a CPU limit (cgroup) stops threads for at
        least 5% of the time.
    Why it matters: The thread that launches GPU work shares its core, and other fixes that need CPU
        time, such as more DataLoader workers, make it worse.
    How it is found: CPU time between readings, of the machine and of the program's processes,
        divided by the time and by the number of cores. The idle time is that of the breakdown, of
        causes on the CPU, in these times.
    What to do: Start fewer workers and threads, or run on more cores.
    Limits: Needs readings of the machine's state. Between two readings only the mean is known.
        Other findings may be about the same idle time. No saving is estimated.
    Source: The Linux manual pages proc(5) and cgroups(7).
    """
    machine = machine_readings(run.trace)
    if machine is None:
        return []
    load = _load(run.trace, machine)
    if not len(load.row):
        return Skipped(NAME, "fewer than two readings of CPU time", "profile longer")
    full = np.flatnonzero(load.is_full)
    idle_ns = _idle_meanwhile(run, load, full)
    scope = step_scope(run)
    facts = scope.windows_on_devices(idle_ns)
    each_ns = max((fact.ns / max(fact.steps, 1) for fact in facts), default=0.0)
    share = scope.share_of_all(each_ns)
    if share < MEASURABLE_RATIO:
        return []
    first = full[:_SHOWN]
    times = load.start_ns[first].tolist(), load.end_ns[first].tolist()
    return [
        Finding(
            NAME,
            severity_of(share),
            f"All CPU cores are busy while the GPU is idle {format_ratio(share)} of the time",
            f"GPU idle {format_ns(each_ns)}{scope.each} ({format_ratio(share)}) for reasons on the"
            f" CPU, while {_how_full(load, full, machine)}.",
            (
                Evidence(
                    f"{len(full):,} of {len(load.row):,} times between readings",
                    "host_health",
                    tuple(load.row[first].tolist()),
                    len(full),
                    tuple(zip(*times, strict=True)),
                ),
            ),
            "Start fewer DataLoader workers and threads (OMP_NUM_THREADS, torch.set_num_threads),"
            " or use more cores: raise the CPU limit of the container or job, and stop other"
            " programs on the machine.",
            "Profile again: `warpline stats -r host_health_sum` shows fewer cores in use.",
            fix_cuda="Start fewer threads, or use more cores: raise the CPU limit of the container"
            " or job, and stop other programs on the machine.",
            share=share,
            on_devices=facts,
        )
    ]


def _load(trace: Trace, machine: Readings) -> _Load:
    """Return the load between readings of the machine that have its CPU time."""
    known = machine.chosen(machine.is_known("cpu_ns"))
    at_ns = known.start_ns
    rows = np.flatnonzero(np.diff(at_ns) > 0)
    time_ns = np.diff(at_ns)[rows].astype(np.float64)
    used = np.diff(known.columns["cpu_ns"].values)[rows] / time_ns
    cores = known.columns["cores"].filled(0)[rows + 1].astype(np.float64)
    usable = known.columns["usable_cores"].filled(0.0)[rows + 1]
    own = np.zeros(len(rows))
    for readings in host_readings(trace):
        cpu = readings.known("cpu_ns")
        if readings.of != MACHINE and len(cpu.at_ns) > 1:
            own += np.diff(np.interp(at_ns, cpu.at_ns, cpu.values))[rows] / time_ns
    stopped, is_known = known.columns["throttled_ns"].values, known.is_known("throttled_ns")
    throttled = np.where((is_known[1:] & is_known[:-1])[rows], np.diff(stopped)[rows], 0)
    return _Load(
        known.row[rows + 1],
        at_ns[rows],
        at_ns[rows + 1],
        np.where(cores > 0, used / np.maximum(cores, 1), 0.0),
        np.where(usable > 0, own / np.where(usable > 0, usable, 1), 0.0),
        throttled / time_ns,
    )


def _idle_meanwhile(run: Run, load: _Load, full: I64) -> I64:
    """Return the idle time that waits for the CPU while no core is left, by measured window."""
    windows = measure_windows(run)
    ns = np.zeros(len(windows.device), np.int64)
    pieces = measured_parts(run, *_OF_CPU)
    nothing = np.zeros(len(pieces.span), np.int64)
    cuts = cut(
        Grouped(pieces.start_ns, pieces.end_ns, nothing),
        Grouped(load.start_ns[full], load.end_ns[full], np.zeros(len(full), np.int64)),
    )
    np.add.at(ns, pieces.span[cuts.span], cuts.end_ns - cuts.start_ns)
    return ns


def _how_full(load: _Load, full: I64, readings: Readings) -> str:
    """Return how busy the cores are in these times."""
    length = (load.end_ns - load.start_ns)[full]
    machine, program, throttled = (
        min(float(np.average(ratio[full], weights=length)), 1.0)
        for ratio in (load.machine, load.program, load.throttled)
    )
    said = []
    if machine >= _FULL:
        cores = readings.known("cores").values[-1]
        said.append(f"{format_ratio(machine)} of the machine's {cores:g} cores is used")
    elif program >= _FULL:
        cores = readings.known("usable_cores").values[-1]
        said.append(f"the program uses {format_ratio(program)} of the {cores:g} cores it may use")
    if throttled >= _THROTTLED:
        said.append(f"a CPU limit stops its threads {format_ratio(throttled)} of the time")
    return " and ".join(said) or "no core is left"
