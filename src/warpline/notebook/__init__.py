"""The IPython extension: ``%load_ext warpline``, then ``%%warpline`` at the top of a cell.

The cell runs in this process with the variables of the notebook, and is recorded as by ``with
warpline.profile()``. With ``--process`` it runs as a program of its own, as by ``warpline
profile``, which has more to record, such as samples of Python's stacks.
"""

from __future__ import annotations

import itertools
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from warpline import api
from warpline.capture.in_process.profile import profile
from warpline.capture.in_process.run import is_recorded
from warpline.errors import UsageError, WarplineError
from warpline.lazy import lazy
from warpline.notebook.progress_line import ProgressLine
from warpline.result import Document
from warpline.trace import Trace

if TYPE_CHECKING:
    from IPython import display as ipython_display
    from IPython.core import error as ipython_error
else:
    ipython_display = lazy("IPython.display")
    ipython_error = lazy("IPython.core.error")

MAGIC = "warpline"
_NOTHING = (
    "Nothing was recorded: the cell called neither CUDA nor NVTX. %%warpline --process records the"
    " Python stacks of a cell that needs no variable of the notebook."
)


def load_ipython_extension(shell: Any) -> None:
    """Register the magic and how traces are shown; IPython calls it for ``%load_ext warpline``."""
    # Recordings of this notebook, until it ends: findings name commands that read them.
    folder = tempfile.TemporaryDirectory(prefix="warpline-notebook-")
    numbers = itertools.count(1)

    def magic(line: str, cell: str) -> None:
        """Record this cell, and show what it did: ``%%warpline -h`` lists the options."""
        unnamed = Path(folder.name) / f"cell{next(numbers)}.warpline"
        try:
            _run(shell, _read(line), cell, unnamed)
        except WarplineError as error:
            said = f"{error.message}; {error.hint}" if error.hint else error.message
            raise ipython_error.UsageError(said) from None

    shell.register_magic_function(magic, magic_kind="cell", magic_name=MAGIC)
    shell.display_formatter.formatters["text/html"].for_type(Trace, html_of_trace)


def html_of_trace(trace: Trace) -> str | None:
    """Return what a notebook shows of a trace: its summary."""
    return api.summary(trace)._repr_html_()


class _Parser(ArgumentParser):
    """A parser whose errors are one line, and do not end the notebook."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint="%%warpline -h lists the options")


def _parser() -> ArgumentParser:
    parser = _Parser(prog=f"%%{MAGIC}", description="Record this cell, and show what it did.")
    parser.add_argument(
        "name", nargs="?", type=_name, metavar="NAME", help="variable that gets the open recording"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="keep the recording in this file, and replace it"
    )
    parser.add_argument(
        "-t", "--trace", default="cuda,nvtx", help="APIs to trace (default: cuda,nvtx)"
    )
    parser.add_argument("--pytorch", default="", help="as for warpline profile: all, modules...")
    parser.add_argument(
        "--steps-from", metavar="NAME", help="NVTX ranges that are steps (default: detect them)"
    )
    parser.add_argument(
        "--process",
        action="store_true",
        help="run the cell as a program of its own, without the variables of the notebook, and"
        " sample its Python stacks, too",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no result")
    return parser


def _name(text: str) -> str:
    if not text.isidentifier():
        raise ArgumentTypeError(f"{text!r} is not the name of a variable")
    return text


def _read(line: str) -> Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quotation mark without its other
        raise UsageError(f"{line}: {error}", hint="%%warpline -h lists the options") from None
    try:
        return _parser().parse_args(words)
    except SystemExit:  # -h
        return Namespace(process=None)


def _run(shell: Any, args: Namespace, cell: str, unnamed: Path) -> None:
    if args.process is None:
        return
    path = unnamed
    if args.output is not None:
        path = Path(args.output).with_suffix(".warpline").absolute()
    record = _as_program if args.process else _here
    if not record(shell, args, cell, path):
        return
    trace = api.open(path)
    if args.name:
        shell.user_ns[args.name] = trace
    if args.output is not None:
        sys.stdout.write(f"wrote {path}\n")
    if not args.quiet:
        ipython_display.display(_result(trace, args.steps_from))


def _here(shell: Any, args: Namespace, cell: str, path: Path) -> bool:
    """Run the cell in this process; return whether there is a recording with events."""
    if is_recorded():
        raise UsageError(
            "this notebook is recorded already", hint="run the cell without %%warpline"
        )
    recording = profile(_pattern(path), trace=args.trace, pytorch=args.pytorch, overwrite=True)
    line = ProgressLine(path, is_shown=hasattr(shell, "kernel"))
    with warnings.catch_warnings(record=True) as before:
        warnings.simplefilter("always")
        recording.start()
    line.start()
    try:
        shell.run_cell(cell)  # shows the error of a cell, if it has one
    finally:
        line.stop()
        with warnings.catch_warnings(record=True) as after:
            warnings.simplefilter("always")
            recording.stop()
    is_empty = bool(recording.finished.get("is_empty"))
    notes = [str(item.message) for item in [*before, *(after if not is_empty else ())]]
    if is_empty:
        notes.append(_NOTHING)
    sys.stderr.write("".join(f"{note}\n" for note in notes))
    return not is_empty


def _as_program(shell: Any, args: Namespace, cell: str, path: Path) -> bool:
    """Run the cell as a program; return whether there is a recording."""
    with tempfile.TemporaryDirectory(prefix="warpline-cell-") as folder:
        script = Path(folder) / "cell.py"
        script.write_text(shell.transform_cell(cell), encoding="utf-8")
        pytorch = [f"--pytorch={args.pytorch}"] if args.pytorch else []
        done = subprocess.Popen(
            [
                *(sys.executable, "-m", "warpline", "profile", "--quiet", "--output"),
                *(_pattern(path), "--force-overwrite=true", f"--trace={args.trace}", *pytorch),
                *("--python-sampling=true", "--", sys.executable, "-u", str(script)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert done.stdout is not None
        with done:
            try:
                for text in done.stdout:
                    sys.stdout.write(text)
            except KeyboardInterrupt:  # it ends as with Ctrl-C, and is recorded up to there
                done.send_signal(signal.SIGINT)
    if done.returncode:
        sys.stderr.write(f"The cell ended with exit status {done.returncode}.\n")
    return path.exists()


def _pattern(path: Path) -> str:
    return str(path).replace("%", "%%")


def _result(trace: Trace, steps: str | None) -> Document:
    """Return the diagnosis; without GPU work, the summary, which has ranges and samples."""
    found = api.analyze(trace, steps=steps, keep_going=True)
    return found if found.breakdown else api.summary(trace)
