"""Registration of rules, each of which detects one kind of performance problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from warpline.registry import Registry
from warpline.result.diagnosis import Finding
from warpline.result.tables import Skipped
from warpline.trace import Run

Judge = Callable[[Run], Sequence[Finding] | Skipped]


@dataclass(frozen=True)
class Rule:
    """A registered rule, which detects one kind of performance problem.

    Attributes:
        name: The id, as in ``warpline explain NAME``.
        title: The problem in a few words, without numbers. A finding's title may add them.
        judge: Takes the run: the trace, and the choice of its steps.
        doc: Its docstring, shown by `explain` and in the documentation.
    """

    name: str
    title: str
    judge: Judge
    doc: str


RULES: Registry[Rule] = Registry("rule")


def rule(*, name: str, title: str, aliases: Iterable[str] = ()) -> Callable[[Judge], Judge]:
    """Register the decorated function as a rule.

    The function returns its findings, an empty list without any, or Skipped if data is missing. Its
    docstring has the headings *What it finds*, *Why it matters*, *How it is found*, *What to do*,
    *Limits* and *Source*.

    Args:
        name: The id.
        title: What an expert would call the problem, without numbers.
        aliases: Former ids, which `explain` still accepts.
    """

    def register(judge: Judge) -> Judge:
        RULES.add(name, Rule(name, title, judge, judge.__doc__ or ""), aliases=aliases)
        return judge

    return register
