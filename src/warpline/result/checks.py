"""Registration of checks, each of which compares one measured value with a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from warpline.registry import Registry
from warpline.result.diagnosis import CHECK_STATES, Check, CheckState
from warpline.trace import Run


class Outcome(NamedTuple):
    """What a check measured.

    Attributes:
        state: ``pass``, ``fail`` or ``unknown``.
        found: The measured value as text, or the missing data.
        value: The number compared with the target; None if there is none.
        unit: Unit of the number: ``ratio`` or ``count``.
    """

    state: CheckState
    found: str
    value: float | None = None
    unit: str = "ratio"


Measure = Callable[[Run], Outcome]


@dataclass(frozen=True, kw_only=True)
class CheckSpec:
    """A registered check.

    Attributes:
        id: Its id, which programs and other parts of Warpline refer to.
        name: What is checked, in a few words.
        wanted: The target as text.
        reason: Why it matters.
        table: The table with the details.
        rank: Its place in the checklist.
        needs: The tables of operations that it cannot do without.
        measure: Takes the run: the trace, and the choice of its steps.
    """

    id: str
    name: str
    wanted: str
    reason: str
    table: str
    rank: int
    needs: tuple[str, ...]
    measure: Measure

    def result(self, outcome: Outcome) -> Check:
        """Return the check as the checklist shows it."""
        return Check(
            id=self.id,
            name=self.name,
            state=outcome.state,
            found=outcome.found,
            wanted=self.wanted,
            reason=self.reason,
            value=outcome.value,
            unit=outcome.unit,
        )


CHECKS: Registry[CheckSpec] = Registry("check")


def check(
    *,
    id: str,  # noqa: A002 - as in the JSON
    name: str,
    wanted: str,
    reason: str,
    table: str,
    rank: int,
    needs: tuple[str, ...] = (),
) -> Callable[[Measure], Measure]:
    """Register the decorated function as a check.

    Args:
        id: A stable id, such as ``gpu-busy``.
        name: What is checked, in a few words.
        wanted: The target as text.
        reason: Why it matters.
        table: The table with the details.
        rank: Its place in the checklist.
        needs: Tables without which the check is unknown: ``kernel``, ``memcpy``.
    """

    def register(measure: Measure) -> Measure:
        CHECKS.add(
            id,
            CheckSpec(
                id=id,
                name=name,
                wanted=wanted,
                reason=reason,
                table=table,
                rank=rank,
                needs=needs,
                measure=measure,
            ),
        )
        return measure

    return register


def at_most(value: float, limit: float) -> CheckState:
    """Return whether a value passes a check that limits it."""
    return "pass" if value <= limit else "fail"


def states_in_words(checks: Sequence[Check]) -> str:
    """Return the number of checks in each state: ``9 pass, 2 fail, 1 unknown``."""
    states = [check.state for check in checks]
    return ", ".join(f"{states.count(state)} {state}" for state in CHECK_STATES)
