"""Runs the commands that a page shows, and returns the page with what they print.

Blocks of ``console`` have commands after ``$ `` with their output. ``...`` stands for any text:
what differs from run to run, or is left out. After a command that fails comes ``$ echo $?``.

Of tutorials, every block is run, in order, in one directory. Commands are shown with the standard
errors as well, as in a terminal:

- ``File `NAME`:`` before a block: it is written to that file.
- Blocks of ``python`` are cells of one notebook; a block of ``text`` has what the last one shows.
- ``<!-- needs A GPU -->`` before a block: it is not run and shows no output. Its commands of
  Warpline are parsed.
- ``<!-- runs in a container -->`` in a page: perf events are refused, as containers do.
- ``<!-- runs beside a checkout -->``: the directory has the repository in `warpline`.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from warpline.cli import main, parser
from warpline.errors import WarplineError

ROOT = Path(__file__).parents[1]
CONSOLE = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(
    r"^(?:<!-- needs (?P<needs>[^\n]+) -->\n|File `(?P<file>[^`\n]+)`:\n\n)?"
    r"```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
CONFINED = "<!-- runs in a container -->"
CHECKOUT = "<!-- runs beside a checkout -->"
REST = "..."
PATIENCE_S = 120
# Words without any meaning to a shell: such a command runs in this process, for speed.
_PLAIN = re.compile(r"warpline(?: +(?:[\w./:=,%+@-]+|'[^']*'))*")
# Their programs print to the streams of the process.
_STARTS = re.compile(r"warpline (?:profile|launch|attach)\b|.* -- ")
_COMMAND = re.compile(r"(?<![\w/.-])warpline (?!-agent)[^\n|&;>#`]*")
_OUT = re.compile(r"^Out\[\d+\]: ?\n?", re.MULTILINE)  # a notebook has it beside the cell
_CELLS = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance(colors="nocolor")
for line in sys.stdin:
    with capture_output() as shown:
        done = shell.run_cell(json.loads(line))
    texts = [shown.stdout, shown.stderr, *(item.data["text/plain"] for item in shown.outputs)]
    print(json.dumps([done.success, "\\n".join(filter(None, texts))]), flush=True)
"""


class Shell:
    """A directory in which the commands and cells of a page are run.

    Attributes:
        folder: The directory.
        has_errors: Whether standard errors are part of what commands print.
        status: Exit status of the last command.
        shown: What the last cell showed.
    """

    def __init__(self, folder: Path, programs: Path, prefix: tuple[str, ...] = ()) -> None:
        """Args: the directory, another one for `python` and `warpline`, what runs each process."""
        self.folder = folder
        self.has_errors = True
        self._prefix = prefix
        self.status = 0
        self.shown = ""
        self._cells: subprocess.Popen[str] | None = None
        for name, words in {"python": "", "warpline": " -m warpline"}.items():
            script = programs / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
            script.chmod(0o755)

    def run(self, line: str) -> str:
        """Return what a command prints to both streams, and keep its status."""
        is_here = _PLAIN.fullmatch(line) and not _STARTS.match(line) and not self._prefix
        self.status, printed = self._here(line) if is_here else self._process(line)
        return printed

    def _here(self, line: str) -> tuple[int, str]:
        out = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out if self.has_errors else io.StringIO()) as errors,
        ):
            status = main(shlex.split(line)[1:])
        return status, out.getvalue() or errors.getvalue()

    def _process(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            [*self._prefix, "bash", "-c", f"(exit {self.status})\n{line}"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout

    def run_cell(self, text: str) -> None:
        """Run a cell in the page's notebook, and keep what it shows, as plain text."""
        if self._cells is None:
            self._cells = subprocess.Popen(
                [sys.executable, "-c", _CELLS],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._cells.stdin is not None
        assert self._cells.stdout is not None
        self._cells.stdin.write(json.dumps(text) + "\n")
        self._cells.stdin.flush()
        succeeds, shown = json.loads(self._cells.stdout.readline())
        assert succeeds, f"this cell fails:\n{text}\n{shown}"
        self.shown = f"{_OUT.sub('', shown).rstrip()}\n"

    def close(self) -> None:
        """End the notebook."""
        if self._cells is not None:
            self._cells.communicate(timeout=PATIENCE_S)


@contextlib.contextmanager
def shell(folder: Path, prefix: tuple[str, ...] = ()) -> Iterator[Shell]:
    """Yield a shell with a screen of 80 columns, no color and an empty home directory."""
    with tempfile.TemporaryDirectory() as home:
        programs = Path(home) / "bin"
        programs.mkdir()
        variables = {
            "COLUMNS": "80",
            "HOME": home,
            "IPYTHONDIR": home,
            "NO_COLOR": "1",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "XDG_DATA_HOME": home,
        }
        with mock.patch.dict(os.environ, variables):
            for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
                os.environ.pop(name, None)
            made = Shell(folder, programs, prefix)
            try:
                yield made
            finally:
                made.close()


def with_output(path: Path, folder: Path) -> str:
    """Return a page with the output of its blocks of ``console``, run in a directory."""
    with shell(folder) as made:
        made.has_errors = False
        text = path.read_text(encoding="utf-8")
        return CONSOLE.sub(lambda block: _ran(block[0], made), text)


def tutorial(path: Path) -> str:
    """Return a tutorial with all that its commands and cells print, run in a new directory."""
    text = path.read_text(encoding="utf-8")
    refusing = (sys.executable, str(ROOT / "tests" / "support" / "without_perf.py"))
    prefix = refusing if CONFINED in text else ()
    with tempfile.TemporaryDirectory() as folder, shell(Path(folder), prefix) as made:
        if CHECKOUT in text:
            (made.folder / "warpline").symlink_to(ROOT)
        return BLOCK.sub(lambda block: _block(block, made), text)


def _block(block: re.Match[str], made: Shell) -> str:
    kind, text = block["kind"], block["text"]
    start = block[0].removesuffix(f"{text}```")
    if block["needs"]:
        check_unrun(text, kind)
    elif block["file"]:
        (made.folder / block["file"]).write_text(text, encoding="utf-8")
    elif kind == "console":
        text = _ran(text, made)
    elif kind == "python":
        made.run_cell(text)
    elif kind == "text":
        text = abridged(text, made.shown)
    else:
        raise AssertionError(f"a block of {kind or 'no language'} is neither run nor has a reason")
    return f"{start}{text}```"


def _ran(text: str, made: Shell) -> str:
    """Return the commands of a block with what they print."""
    parts = []
    for line, shown in commands(text):
        assert made.status == 0 or line == "echo $?", f"status {made.status}, before $ {line}"
        printed = made.run(line.replace("\\\n", " "))
        if printed and not printed.endswith("\n"):
            printed += "\n"
        parts.append(f"$ {line}\n{abridged(shown, printed)}")
    assert made.status == 0, f"status {made.status}, after\n{parts[-1]}"
    return "".join(parts)


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a block, which a backslash continues, and the output shown of each."""
    parts = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE)
    assert "".join(f"$ {line}\n{shown}" for line, shown in parts) == text, "text before a command"
    return parts


def abridged(shown: str, printed: str) -> str:
    """Return what a page shows of an output: what it showed, if that is still right.

    Otherwise the changed lines are replaced; lines ``...`` keep their places.
    """
    if _stands_for(shown, printed):
        return shown
    old, new = shown.splitlines(keepends=True), printed.splitlines(keepends=True)
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        places = [place for place, line in enumerate(old[a:b]) if line == f"{REST}\n"]
        if places and d - c > b - a - len(places):
            after = b - a - 1 - places[-1]
            lines += [*new[c : c + places[0]], f"{REST}\n", *new[d - after : d]]
        else:
            lines += new[c:d]
    made = "".join(lines)
    return made if _stands_for(made, printed) else printed


def _stands_for(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in shown.split(REST))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def check_unrun(text: str, kind: str) -> None:
    """Check what can be checked of a block that is not run here.

    Raises:
        AssertionError: If it shows output, or a command of Warpline in it cannot be parsed.
        SyntaxError: If it is no Python.
    """
    if kind == "python":
        compile(text, "block", "exec")
    if kind == "console":
        assert not any(shown for _, shown in commands(text)), "output of what was not run"
    for line in warpline_lines(text):
        parse(line)


def warpline_lines(text: str) -> list[str]:
    """Return the commands of Warpline in a text, without what is before and after them."""
    return [found[0].strip() for found in _COMMAND.finditer(text.replace("\\\n", " "))]


def parse(line: str) -> None:
    """Check the options of a command, which is not run.

    Raises:
        AssertionError: If it is none.
    """
    try:
        parser.parse(shlex.split(line.replace(" PID", " 4321"))[1:])
    except (WarplineError, ValueError, SystemExit) as error:
        raise AssertionError(f"{line}: {error}") from None
