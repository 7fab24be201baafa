"""How a rule is registered, which looks for one kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from warpline.registry import Registry
from warpline.result.diagnosis import Finding
from warpline.result.tables import Skipped
from warpline.trace import Trace

Judge = Callable[[Trace, str | None], Sequence[Finding] | Skipped]


@dataclass(frozen=True)
class Rule:
    """A registered rule, which looks for one kind of fault.

    Attributes:
        name: What users type after ``warpline explain``.
        title: What it looks for, in a few words.
        judge: Gets the trace and the name of the steps' ranges, None to find the steps.
        doc: Its docstring; `explain` and the documentation show it.
    """

    name: str
    title: str
    judge: Judge
    doc: str


RULES: Registry[Rule] = Registry("rule")


def rule(*, name: str, title: str, aliases: Iterable[str] = ()) -> Callable[[Judge], Judge]:
    """Register the decorated function as a rule.

    It returns what it finds, nothing if all is well, or Skipped if it cannot tell. Its docstring
    has the headings *What it finds*, *Why it matters*, *How it is found*, *What to do*, *Limits*
    and *Source*.

    Args:
        name: Its id.
        title: What an expert would call the problem.
        aliases: Ids that it had before; `explain` still knows them.
    """

    def register(judge: Judge) -> Judge:
        RULES.add(name, Rule(name, title, judge, judge.__doc__ or ""), aliases=aliases)
        return judge

    return register
