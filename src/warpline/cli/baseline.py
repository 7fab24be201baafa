"""``warpline baseline``: summaries of runs by name, for ``gate`` and ``trend``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import add_steps, add_switches
from warpline.cli.gate import FOLDER
from warpline.cli.sides import check_runs
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import InputError, UsageError
from warpline.units import format_bytes, format_ns, plural

if TYPE_CHECKING:
    from warpline import api
    from warpline.cli import freed_memory
    from warpline.comparison import baselines
    from warpline.comparison.summary import Summary
    from warpline.result import profile
else:
    api = lazy("warpline.api")
    freed_memory = lazy("warpline.cli.freed_memory")
    baselines = lazy("warpline.comparison.baselines")
    profile = lazy("warpline.result.profile")

NAME = "baseline"
HELP = "save, list, show or remove baselines: small summaries of runs, to be committed"

_KERNELS = 10  # shown
_WHOLE = {"none": "in all", "command": "per command"}  # what has no steps, by source


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument("action", nargs="?", metavar="ACTION", help="save, list, show or rm")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME [RECORDING...]",
        help="name of the baseline; to save one, the recordings of its runs",
    )
    parser.usage = (
        f"{parser.prog} save NAME RECORDING... [OPTIONS]\n"
        f"       {parser.prog} list|show NAME|rm NAME [--folder DIR]"
    )
    parser.add_argument(
        "--folder", default=FOLDER, metavar="DIR", help=f"folder of baselines (default: {FOLDER})"
    )
    add_steps(parser)
    add_switches(parser)


def run(args: Namespace) -> int:
    """Save, list, show or remove baselines."""
    actions: Mapping[str | None, Callable[[Namespace], int]] = {
        "save": _save,
        "list": _list,
        "show": _show,
        "rm": _remove,
    }
    if args.action not in actions:
        said = "missing ACTION argument" if args.action is None else f"no action {args.action!r}"
        raise UsageError(said, hint=f"use warpline {NAME} save, list, show or rm")
    return actions[args.action](args)


def _save(args: Namespace) -> int:
    if len(args.words) < 2:
        name = args.words[0] if args.words else "main"
        raise UsageError(
            "save needs a name and recordings", hint=f"warpline {NAME} save {name} RECORDING..."
        )
    name, *recordings = args.words
    folder = Path(args.folder)
    path = baselines.path_of(folder, name)
    check_runs(recordings)
    freed_memory.reuse()
    summary = api.summarize(recordings, steps=args.steps, keep_going=not args.debug)
    baselines.save(folder, name, summary, overwrite=args.force_overwrite)
    if not args.quiet:
        talk.note(f"wrote {path}: {_facts(summary)}")
    return 0


def _list(args: Namespace) -> int:
    if args.words:
        raise UsageError(f"unexpected argument {args.words[0]!r}", hint=f"warpline {NAME} list")
    folder = Path(args.folder)
    names = baselines.names(folder)
    if not names:
        talk.note(f"no baselines in {folder}")
        return 0
    width = max(map(len, names))
    lines = []
    failed = 0
    for name in names:
        try:
            summary = baselines.read(baselines.path_of(folder, name))
        except InputError as error:
            talk.failure(error.message, error.hint, debug=False)
            failed = 1
            continue
        when = summary.recorded_utc or "time unknown"
        lines.append(f"{name:{width}}  {when:20}  {_facts(summary)}")
    if lines:
        write_text("\n".join(lines))
    return failed


def _show(args: Namespace) -> int:
    summary = baselines.load(Path(args.folder), _name(args))
    lines = [f"{summary.title}: {_facts(summary)}"]
    if summary.recorded_utc:
        lines.append(f"recorded {summary.recorded_utc}")
    means = [sum(run) / len(run) for run in summary.step_ns]
    lines.append(f"mean step of each run: {', '.join(format_ns(ns) for ns in means)}")
    if summary.memory_peak_bytes:
        peaks = ", ".join(format_bytes(size) for size in summary.memory_peak_bytes)
        lines.append(f"peak memory: {peaks}")
    for title, values in (("Parts", summary.parts_ns), ("Kernels", summary.kernels_ns)):
        lines += _table(title, values)
    if summary.findings:
        found = ", ".join(f"{rule} ({level})" for rule, level in summary.findings.items())
        lines += ["", f"Findings: {found}"]
    facts = (f"{name}: {value}" for name, value in summary.environment.items())
    lines += ["", "Environment", *(f"  {fact}" for fact in facts)] if summary.environment else []
    return write_text("\n".join(lines))


def _remove(args: Namespace) -> int:
    path = baselines.remove(Path(args.folder), _name(args))
    if not args.quiet:
        talk.note(f"removed {path}")
    return 0


def _name(args: Namespace) -> str:
    if len(args.words) != 1:
        raise UsageError(
            f"{args.action} needs the name of a baseline", hint=f"warpline {NAME} list"
        )
    return str(args.words[0])


def _facts(summary: Summary) -> str:
    per, source = ("per step", f", {profile.steps_in_words(summary.source)}")
    if summary.source in _WHOLE:
        per, source = (_WHOLE[summary.source], "")
    return f"{format_ns(summary.mean_ns)} {per} ({plural(summary.runs, 'run')}{source})"


def _table(title: str, values: Mapping[str, tuple[float, ...]]) -> list[str]:
    means = {name: sum(numbers) / len(numbers) for name, numbers in values.items()}
    longest = sorted(means, key=lambda name: -means[name])[:_KERNELS]
    return ["", title, *(f"  {format_ns(means[name]):>8}  {name}" for name in longest)][
        : None if longest else 0
    ]
