"""From words to a command and its arguments, with help for words that are slightly wrong.

Only the module of the command at hand is imported, unless a list of all is needed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, cast, runtime_checkable

from warpline.cli import summary
from warpline.errors import UsageError, WarplineError

_ABOUT = "Performance profiles of CUDA and PyTorch programs, read, tabulated and explained."
_USAGE = "warpline RECORDING...\n       warpline COMMAND [OPTIONS]"
_LEADING_MINUS = re.compile(r"-[0-9.]")


class Command(Protocol):
    """A module of this package that is a command."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the command's options and positional words."""

    def run(self, args: Namespace) -> int:
        """Do what the words ask for and return the exit status."""
        ...


@runtime_checkable
class OwnGrammar(Protocol):
    """A command that reads its words itself, as they end with those of another program."""

    def asks_for_help(self, words: Sequence[str]) -> bool:
        """Return whether help is asked for among the command's own words."""

    def read(self, words: Sequence[str]) -> Namespace:
        """Return what the words ask for, or raise UsageError."""
        ...


class Parser(ArgumentParser):
    """A parser that reports mistakes as UsageError, in words of ours."""

    def __init__(self, prog: str, usage: str | None = None, description: str | None = None) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            add_help=False,
            allow_abbrev=False,  # a new option must not change what old scripts mean
            formatter_class=_Formatter,
        )
        self.color = False  # read by Python 3.14 and later
        self.add_argument("-h", "--help", action="store_true", help="show this help")
        self.add_argument(
            "--debug", action="store_true", help="show where in Warpline an error arose"
        )

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print before it ends the program."""
        text = message.removeprefix("argument ")
        raise UsageError(f"option {text}" if text != message else text, hint=f"{self.prog} --help")

    def read(self, words: Sequence[str]) -> Namespace:
        """Parse words in which options and file names may stand in any order."""
        args, unknown = self.parse_known_intermixed_args(_joined(words))
        for word in unknown:
            if not word.startswith("-"):
                raise UsageError(f"{self.prog} has no use for {word!r}", hint=f"{self.prog} --help")
            name = word.split("=")[0]
            known = [option for action in self._actions for option in action.option_strings]
            raise UsageError(
                f"{self.prog} has no option {name!r}",
                hint=_did_you_mean(name, known) or f"{self.prog} --help",
            )
        return args


class _Formatter(argparse.HelpFormatter):
    """Help in the form that Python 3.13 gave it, on all versions: ``-o, --output FILE``."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=min(100, _terminal_width()))

    def _format_action_invocation(self, action: Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def parse(words: Sequence[str]) -> Callable[[], int]:
    """Return what runs the command that the words ask for; UsageError if there is none.

    A first word that is a file, or looks like one, asks for a summary of it.
    """
    rest = list(words)
    while rest and rest[0] == "--debug":  # elsewhere it is an option of the command
        del rest[0]
    if not rest:
        return _too_few
    first = rest[0]
    if first in {"-h", "--help"}:
        return lambda: _print(overview())
    if first in {"-V", "--version"}:
        return lambda: _print(_version())
    if first.startswith("-"):
        raise UsageError(
            f"option {first.split('=')[0]!r} stands before the command",
            hint="the command comes first: warpline stats --format csv RECORDING",
        )
    chosen = find(first)
    if chosen is not None:
        return _invocation(chosen, rest[1:])
    if os.path.lexists(first) or "." in first or "/" in first or os.sep in first:
        return _invocation(summary, rest)
    names = [item.NAME for item in commands()]
    raise UsageError(
        f"unknown command {first!r}",
        hint=_did_you_mean(first, names) or f"name a recording or a command: {', '.join(names)}",
    )


def find(name: str) -> Command | None:
    """Return the command of this name, or None."""
    if not name.isidentifier():
        return None
    module_name = f"{__package__}.{name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        return None
    return cast("Command", module) if hasattr(module, "NAME") else None


def commands() -> list[Command]:
    """Return all commands, in alphabetical order."""
    import pkgutil  # noqa: PLC0415 - start-up: only lists of all commands need it

    package = importlib.import_module(__package__)
    found = (find(module.name) for module in pkgutil.iter_modules(package.__path__))
    return [item for item in found if item is not None]


def parser_of(item: Command) -> Parser:
    """Return the parser of a command's words."""
    parser = Parser(f"warpline {item.NAME}", description=f"{item.HELP[0].upper()}{item.HELP[1:]}.")
    parser.set_defaults(command=item.NAME)
    item.add_arguments(parser)
    return parser


def overview() -> str:
    """Return what ``warpline --help`` says."""
    items = commands()
    width = max(len(item.NAME) for item in items)
    lines = [f"  {item.NAME:{width}}  {item.HELP}" for item in items]
    options = {
        "-h, --help": "show this help; after a command, that command's",
        "-V, --version": "show the version",
        "--debug": "show where in Warpline an error arose",
    }
    return "\n".join(
        [
            f"usage: {_USAGE}",
            "",
            _ABOUT,
            "",
            "A recording alone asks for its summary. Commands:",
            *lines,
            "",
            "Options:",
            *(f"  {name:{width + 4}}  {text}" for name, text in options.items()),
        ]
    )


def _invocation(item: Command, words: Sequence[str]) -> Callable[[], int]:
    parser = parser_of(item)
    asks_for_help, read = _asks_for_help, parser.read
    if isinstance(item, OwnGrammar):
        asks_for_help, read = item.asks_for_help, item.read
    if asks_for_help(words):
        return lambda: _print(parser.format_help().rstrip())
    args = read(words)
    return lambda: item.run(args)


def _asks_for_help(words: Sequence[str]) -> bool:
    """Return whether help is asked for; it is given however wrong the other words are."""
    options = words[: words.index("--")] if "--" in words else words
    return "-h" in options or "--help" in options


def _joined(words: Sequence[str]) -> list[str]:
    """Join what belongs together but argparse would take apart.

    Negative times (``--filter-time -5ms/5ms``) look like options, nsys lets true or false follow
    --force-overwrite, and what stands after ``--`` names files.
    """
    joined: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return joined + [f"./{w}" if w.startswith("-") else w for w in words[place + 1 :]]
        before = joined[-1] if joined else ""
        if before in {"--filter-time", "--times"} and _LEADING_MINUS.match(word):
            joined[-1] = f"{before}={word}"
        elif before == "--force-overwrite" and word in {"true", "false"}:
            joined[-1:] = [before] if word == "true" else []
        elif word.startswith("--force-overwrite="):
            joined += ["--force-overwrite"] if word.endswith("=true") else []
        else:
            joined.append(word)
    return joined


def _did_you_mean(word: str, known: Sequence[str]) -> str | None:
    import difflib  # noqa: PLC0415 - start-up: only mistakes need it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    near = near or [name for name in known if name.startswith(word)][:1]
    return f"did you mean {near[0]}?" if near else None


def _terminal_width() -> int:
    import shutil  # noqa: PLC0415 - start-up: only help needs it

    return shutil.get_terminal_size().columns - 2


def _version() -> str:
    import warpline  # noqa: PLC0415 - the package is this module's own, already imported

    return f"warpline {warpline.__version__}"


def _too_few() -> int:
    if sys.stderr is not None:
        sys.stderr.write(overview() + "\n")
    return UsageError.exit_code


def _print(text: str) -> int:
    if sys.stdout is None:
        raise WarplineError("standard output is closed")
    sys.stdout.write(text + "\n")
    return 0
