"""warp_states: what warps wait for between two instructions."""

from __future__ import annotations

from warpline.derived.counters.instructions import STALL as SAMPLED
from warpline.derived.counters.known import Known, ratio, total, total_of_known
from warpline.derived.kernel_sections.columns import Item, Ranked, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

_CYCLES = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# By the name of the counter: CUPTI's name, without its prefix.
STALLS = {
    "barrier": "Barrier",
    "branch_resolving": "Branch Resolving",
    "dispatch_stall": "Dispatch Stall",
    "drain": "Drain",
    "gmma": "GMMA",
    "imc_miss": "Immediate Constant Cache Miss",
    "lg_throttle": "LG Throttle",
    "long_scoreboard": "Long Scoreboard",
    "math_pipe_throttle": "Math Pipe Throttle",
    "membar": "Memory Barrier",
    "mio_throttle": "MIO Throttle",
    "misc": "Misc",
    "no_instruction": "No Instruction",
    "not_selected": "Not Selected",
    "selected": "Selected",
    "short_scoreboard": "Short Scoreboard",
    "sleeping": "Sleeping",
    "tex_throttle": "Texture Throttle",
    "wait": "Wait",
}
_LEAST_STATES = 15
# PC sampling has other names for two of them.
_OF_SAMPLES = {"gmma": "warpgroup_arrive", "no_instruction": "no_instructions"}


@section_body("warp_states")
def warp_states(metrics: Metrics) -> Item:
    """Return the cycles that a warp spends in each state per issued instruction, and their share.

    Launches without these counters have the shares of the samples of PC sampling.
    """
    counted = {stall: _CYCLES.format(stall) for stall in STALLS}
    sampled = {stall: SAMPLED + _OF_SAMPLES.get(stall, stall) for stall in STALLS}
    cycles = _of_states(metrics, counted, has_cycles=True)
    has_cycles = any_of(cycles, len(metrics))
    samples = [
        Item(item.has & ~has_cycles, item.tree)
        for item in _of_states(metrics, sampled, has_cycles=False)
    ]
    items = [*cycles, *samples]
    return Item(any_of(items, len(metrics)), Ranked(items, ("cycles_per_instruction", "ratio")))


def _of_states(metrics: Metrics, names: dict[str, str], *, has_cycles: bool) -> list[Item]:
    known = {stall: metrics.get(name) for stall, name in names.items()}
    # Chips differ in their states. A launch has all that its chip has.
    of_chip = [of for of in known.values() if of.is_known.any()]
    has_all = total(*of_chip).is_known if of_chip else ~metrics.every()
    whole = total_of_known(*known.values())
    # Chips have 17 to 19 states. If some were chosen by hand, their whole is unknown.
    is_whole = len(of_chip) >= _LEAST_STATES or not has_cycles
    whole = Known(whole.values, has_all & is_whole)
    items = []
    for stall, of in known.items():
        tree: dict[str, Tree] = {
            "stall": stall,
            "label": STALLS[stall],
            "metric": names[stall],
            "cycles_per_instruction": of if has_cycles else metrics.none,
            "ratio": ratio(of, whole),
        }
        items.append(Item(of.is_known & has_all, tree))
    return items
