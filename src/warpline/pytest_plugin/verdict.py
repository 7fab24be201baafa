"""Whether a test's recordings keep its limits, and the words of its failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warpline import api
from warpline.comparison import baselines
from warpline.comparison.bounds import NO_STEP, Held, Outcome, judge_bound, judge_findings
from warpline.comparison.summary import Summary, joined
from warpline.errors import UsageError, WarplineError
from warpline.pytest_plugin.marker import Wanted
from warpline.render.escaping import visible
from warpline.result.gate import MetricResult
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.pytest_plugin.recorder import Recorded

_WORDS = {
    "ok": "ok",
    "failed": "FAILED",
    "unknown": "CANNOT CHECK",
    "undecided": "CANNOT DECIDE",  # as warpline gate
}
_OUTCOMES: dict[str, Outcome] = {"pass": "ok", "regression": "failed", "undecided": "undecided"}


class Folder(NamedTuple):
    """Baselines, and whether they are saved instead of compared with."""

    path: Path
    is_saving: bool = False


class Verdict(NamedTuple):
    """Which limits hold.

    Attributes:
        limits: Each limit.
        notes: What restricts the result.
    """

    limits: tuple[Held, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether the test fails. A limit that cannot be checked is no pass."""
        return any(item.outcome != "ok" for item in self.limits)

    @property
    def text(self) -> str:
        """What pytest shows: the first limit that does not hold, and several limits below."""
        bad = [item for item in self.limits if item.outcome != "ok"]
        bad.sort(key=lambda item: item.outcome != "failed")
        lines = [f"warpline: {_first(bad)}" if bad else "warpline: all limits hold"]
        if len(self.limits) > 1:
            lines += self._table()
        elif bad and bad[0].of_what:
            lines += [f"  {bad[0].of_what}"]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(map(visible, lines))

    def _table(self) -> Iterator[str]:
        words = max(len(_WORDS[item.outcome]) for item in self.limits)
        names = max(len(item.metric) for item in self.limits)
        for item in self.limits:
            more = f" ({item.of_what})" if item.of_what else ""
            word = _WORDS[item.outcome]
            yield f"  {word:{words}}  {item.metric:{names}}  {item.said}{more}"


def _first(bad: Sequence[Held]) -> str:
    first, more = bad[0], ""
    if len(bad) > 1:
        more = f" (and {plural(len(bad) - 1, 'other limit')})"
    if first.outcome == "failed":
        return f"{first.metric}: {first.said}{more}"
    return f"{_WORDS[first.outcome].lower()} {first.metric}: {first.said}{more}"


def of(recorded: Recorded, wanted: Wanted, folder: Folder) -> Verdict:
    """Return whether limits hold; `CaptureError` and `InputError` if there is no recording."""
    try:
        summary = recorded.summary
    except WarplineError as error:
        if recorded.paths:
            return _unknown(wanted, error)
        raise
    found = [judge_bound(summary, bound) for bound in wanted.bounds]
    if wanted.no_findings:
        found.append(judge_findings(summary, wanted.no_findings))
    if wanted.baseline is None:
        return Verdict(tuple(found))
    if folder.is_saving:
        if all(item.outcome == "ok" for item in found):
            path = baselines.save(folder.path, wanted.baseline, summary, overwrite=True)
            found.append(Held("baseline", "ok", f"saved {path}"))
        return Verdict(tuple(found))
    compared = _compared(summary, wanted, wanted.baseline, folder.path)
    return compared._replace(limits=(*found, *compared.limits))


def _unknown(wanted: Wanted, error: WarplineError) -> Verdict:
    """Return that nothing can be checked, for one reason."""
    names = [bound.metric for bound in wanted.bounds]
    names += ["no_findings"] * bool(wanted.no_findings)
    names += [f"baseline {wanted.baseline}"] * (wanted.baseline is not None)
    said = f"{error.message}; {error.hint}" if error.hint else error.message
    if isinstance(error, UsageError) and wanted.steps is None:
        said = NO_STEP
    return Verdict(tuple(Held(name, "unknown", said) for name in names))


def _compared(summary: Summary, wanted: Wanted, name: str, folder: Path) -> Verdict:
    title = f"baseline {name}"
    if not baselines.path_of(folder, name).exists():
        hint = "save it from the version to compare with: pytest --warpline-save"
        return Verdict((Held(title, "unknown", f"there is none in {folder}; {hint}"),))
    saved = joined(title, [baselines.load(folder, name)])
    found = api.gate(saved, summary, wanted.fail_on)
    limits = [_held(title, metric, passes=wanted.passes_undecided) for metric in found.metrics]
    return Verdict(tuple(limits), found.notes if found.outcome != "pass" else ())


def _held(title: str, metric: MetricResult, *, passes: bool) -> Held:
    if metric.outcome == "undecided" and passes:
        return Held(title, "ok", f"cannot decide, which may pass: {metric.reason}")
    return Held(title, _OUTCOMES[metric.outcome], metric.reason)
