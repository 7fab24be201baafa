"""What is printed and written once a recording is there: summary, tables, exports, warnings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.capture.flags.settings import CaptureSettings
from warpline.cli import running, talk
from warpline.cli.messages import say_failed
from warpline.cli.startup import lazy
from warpline.errors import WarplineError
from warpline.units import plural

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, plugins, render, result
    from warpline.capture.launcher import on_finish
    from warpline.capture.session import names
    from warpline.render import screen
    from warpline.result import Result, Skipped
    from warpline.trace import Trace
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    result = lazy("warpline.result")
    names = lazy("warpline.capture.session.names")
    on_finish = lazy("warpline.capture.launcher.on_finish")
    screen = lazy("warpline.render.screen")

_ALWAYS_SHOWN = ("process_sum", "recording")


def conclude(
    chosen: CaptureSettings, output: Path, finished: Mapping[str, Any], nothing: str
) -> None:
    """Print the summary and the warnings of a recording of a session.

    Args:
        chosen: The settings of the recording.
        output: The recording.
        finished: Its counts.
        nothing: What to say if it is empty.
    """
    running.hide_progress(is_quiet=chosen.quiet)
    is_empty = bool(finished.get("is_empty"))
    has_summary = not (chosen.no_summary or chosen.quiet or is_empty)
    show(chosen, output, has_summary=has_summary)
    if not chosen.quiet:
        _tell(finished, output, nothing if is_empty else "")
    on_finish.run(chosen.on_finish, output, talk.warning)


def _tell(finished: Mapping[str, Any], output: Path, nothing: str) -> None:
    """Print the warnings of a recording, and its name."""
    if nothing:
        talk.warning(nothing)
    if finished.get("lost"):
        talk.warning(f"{plural(finished['lost'], 'event')} dropped")
    for warning in finished.get("warnings", ()):
        talk.warning(warning)
    talk.note(f"wrote {running.short(output)}")


def show(chosen: CaptureSettings, output: Path, *, has_summary: bool) -> None:
    """Print the summary and the tables of a recording, and write its exports.

    Errors here do not change the exit status: the recording exists.

    Args:
        chosen: The settings of the recording.
        output: The recording.
        has_summary: Whether the summary is printed.
    """
    name = running.short(output)
    with running.keeping_status(f"run warpline stats {name}"):
        if has_summary or chosen.stats or chosen.export:
            trace = api.open(name)
            if has_summary:
                _summarise(trace)
            _export(chosen, trace, output)
            if chosen.stats:
                _print_tables(trace)


def _summarise(trace: Trace) -> None:
    """Write the summary to standard error."""
    if sys.stderr is None:
        return
    document = api.summary(trace, with_layers=True)
    # Sections skipped for lack of CUDA are left out: a note mentions that once.
    shown = (item for item in document.sections if _is_shown(item))
    document = dataclasses.replace(document, sections=tuple(shown))
    try:
        sys.stderr.write("\n")
        screen.render(document, sys.stderr, render.detect_options(sys.stderr, os.environ))
    except OSError:
        return  # standard error is closed


def _is_shown(section: Result | Skipped) -> bool:
    """Return whether a section belongs on the screen."""
    return isinstance(section, result.Result) or section.name in _ALWAYS_SHOWN


def _print_tables(trace: Trace) -> None:
    """Write the nonempty nsys tables to standard output."""
    if sys.stdout is None:
        return
    document = api.document(trace, api.default_tables(), keep_going=True)
    filled = tuple(
        item for item in document.sections if isinstance(item, result.Result) and len(item)
    )
    detected = render.detect_options(sys.stdout, os.environ)
    plugins.find("renderers", "text", render.RENDERERS).render(
        dataclasses.replace(document, sections=filled), sys.stdout, detected
    )
    say_failed(item for item in document.sections if isinstance(item, result.Skipped))


def _export(chosen: CaptureSettings, trace: Trace, output: Path) -> None:
    """Write the exports next to the recording."""
    for kind in chosen.export:
        path = names.export_path(output, kind)
        try:
            api.export(trace, path, kind, overwrite=chosen.force_overwrite)
        except WarplineError as error:
            retry = f"run warpline export --type {kind} -o FILE {running.short(output)}"
            talk.failure(error.message, retry, debug=False)
        else:
            if not chosen.quiet:
                talk.note(f"wrote {running.short(path)}")
