"""Parsing of the command line, with suggestions for mistyped words.

Only the module of the chosen command is imported, unless a list of all commands is needed.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import keyword
import os
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, cast, runtime_checkable

from warpline import __version__, installation
from warpline.cli import bar
from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError
from warpline.lazy import lazy_pattern

if TYPE_CHECKING:
    import difflib
    import pkgutil
    import shlex
    import shutil
    import textwrap

    from warpline.cli import copying, examples, greeting
else:
    difflib = lazy("difflib")
    pkgutil = lazy("pkgutil")
    shlex = lazy("shlex")
    shutil = lazy("shutil")
    textwrap = lazy("textwrap")
    copying = lazy("warpline.cli.copying")
    examples = lazy("warpline.cli.examples")
    greeting = lazy("warpline.cli.greeting")

_ABOUT = "Profile CUDA and PyTorch programs, and analyze the recordings."
_WITHOUT_COMMAND = "Without a command, Warpline prints the summary of the recordings. Commands:"
_ABOUT_AGENT = "Record CUDA and PyTorch programs. Recordings are read where Warpline is installed."
_USAGE = "warpline RECORDING...\n       warpline COMMAND [OPTIONS]"
_LEADING_MINUS = lazy_pattern(r"-[0-9.]")
_RECORDINGS = ("recordings", "before", "after")  # attributes of arguments that name recordings
# Those about programs that are recorded, besides the ones that check when they have parsed how.
_OF_PROGRAMS = {
    *("profile", "launch", "start", "stop", "cancel", "status", "sessions", "dump", "finalize"),
    *("shutdown", "attach", "top"),
}
_SWITCHES = {"force_overwrite", "quiet", "force_export"}  # nsys lets true or false follow them


class Command(Protocol):
    """A module of this package that is a command."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options and arguments of the command."""

    def run(self, args: Namespace) -> int:
        """Run the command and return its exit status."""
        ...


@runtime_checkable
class OwnGrammar(Protocol):
    """A command that parses its own words, because they end with another program's."""

    def asks_for_help(self, words: Sequence[str]) -> bool:
        """Return whether the command's own words ask for help."""

    def read(self, words: Sequence[str]) -> Namespace:
        """Return the parsed words, or raise UsageError."""
        ...


@runtime_checkable
class ReadsElsewhere(Protocol):
    """A command that reads recordings where they are, also on other machines."""

    OPENS_PLACES: bool


@runtime_checkable
class HasParts(Protocol):
    """A command with parts, which are commands of their own: ``kernels plan``."""

    PARTS: Sequence[Command]

    def part(self, words: Sequence[str]) -> Command | None:
        """Return the part that the words mean; None for the command itself."""
        ...


class Parser(ArgumentParser):
    """A parser that raises UsageError with a hint."""

    def __init__(self, prog: str, usage: str | None = None, description: str | None = None) -> None:
        super().__init__(
            prog=prog,
            usage=usage or f"{prog} [OPTIONS]",
            description=description,
            add_help=False,
            formatter_class=_Formatter,
            allow_abbrev=False,  # a new option must not break scripts that abbreviate another
        )
        self.color = False  # read by Python 3.14 and later
        self.add_argument("-h", "--help", action="store_true", help="show this help")
        self.add_argument("--debug", action="store_true", help="show a traceback on errors")
        self._positionals.title = "arguments"

    def format_help(self) -> str:
        """Return the help, as wide as the terminal, and examples as they are typed."""
        self.formatter_class = functools.partial(_Formatter, width=min(100, _terminal_width()))
        return super().format_help() + examples.shown(self.prog.partition(" ")[2])

    def error(self, message: str) -> NoReturn:
        """Raise the message that argparse would print before it exits."""
        text = message.removeprefix("argument ")
        raise UsageError(f"option {text}" if text != message else text, hint=self._see_help())

    def read(self, words: Sequence[str]) -> Namespace:
        """Parse words; options and file names may be in any order."""
        switches = {
            option
            for action in self._actions
            if action.dest in _SWITCHES
            for option in action.option_strings
        }
        args, unknown = self.parse_known_intermixed_args(_joined(words, switches))
        for word in unknown:
            if not word.startswith("-"):
                raise UsageError(f"unexpected argument {word!r}", hint=self._see_help())
            name = word.split("=")[0]
            known = [option for action in self._actions for option in action.option_strings]
            raise UsageError(
                f"{self.prog} has no option {name!r}",
                hint=_did_you_mean(name, known) or self._see_help(),
            )
        return args

    def _see_help(self) -> str:
        return f"see {self.prog} --help"


class _Formatter(argparse.HelpFormatter):
    """Help in the form of Python 3.13 on all versions: ``-o, --output FILE``."""

    def __init__(self, prog: str, width: int = 100) -> None:
        # argparse makes one for each argument, so finding the terminal's width would take long.
        super().__init__(prog, max_help_position=32, width=width)

    def _format_action_invocation(self, action: Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _split_lines(self, text: str, width: int) -> list[str]:
        # Names such as .warpline-baselines stay whole.
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def parse(words: Sequence[str]) -> Callable[[], int]:
    """Return a function that runs the command; UsageError if there is no such command.

    A recording without a command means `summary`; options may precede it.
    """
    rest = list(words)
    while rest and rest[0] == "--debug":  # elsewhere it is an option of the command
        del rest[0]
    if not rest:
        return lambda: _print(greeting.text(greeting.look(os.environ)))
    first = rest[0]
    if first in {"-h", "--help", "help"}:
        return _help(rest[1:] if first == "help" else [])
    if first in {"-V", "--version"}:
        return lambda: _print(_version())
    if first.startswith("-"):
        return _options_first(rest)
    chosen = find(first)
    if chosen is not None:
        return _invocation(chosen, rest[1:])
    if os.path.lexists(first) or "." in first or "/" in first or os.sep in first:
        return _summary(rest)
    raise _unknown_command(first)


def _options_first(words: Sequence[str]) -> Callable[[], int]:
    """Return the summary of a recording that options precede; else raise UsageError."""
    option = words[0].split("=")[0]
    for place, word in enumerate(words):
        if word.startswith("-"):
            continue
        if find(word) is not None:
            reordered = shlex.join([word, *words[:place], *words[place + 1 :]])
            raise UsageError(
                f"option {option!r} precedes the command",
                hint=f"put the command first: warpline {reordered}",
            )
        if os.path.lexists(word):
            return _summary(words)
    raise UsageError(
        f"option {option!r} without a command or an existing recording",
        hint=f"put the command first: warpline stats {shlex.join(words)} RECORDING",
    )


def _summary(words: Sequence[str]) -> Callable[[], int]:
    """Return what a recording without a command means."""
    installation.require_reading()
    chosen = find("summary")
    assert chosen is not None  # it is there wherever recordings can be read
    return _invocation(chosen, words)


def _help(words: Sequence[str]) -> Callable[[], int]:
    """Return what ``warpline help [COMMAND]`` does."""
    names = [word for word in words if not word.startswith("-")]
    if not names:
        return lambda: _print(overview())
    chosen = find(names[0])
    if chosen is None:
        raise _unknown_command(names[0])
    return _invocation(chosen, [*names[1:], "--help"])


def _unknown_command(name: str) -> UsageError:
    names = [item.NAME for item in commands()]
    if not installation.reads():
        return UsageError(
            f"warpline-agent has no command {name!r}", hint=f"it only records: {', '.join(names)}"
        )
    hint = _did_you_mean(name, names) or f"name a recording or a command: {', '.join(names)}"
    return UsageError(f"unknown command {name!r}", hint=hint)


def find(name: str) -> Command | None:
    """Return the command of this name, or None."""
    if not name.isidentifier():
        return None
    # A module cannot have the name of a keyword: that of `import` is `import_`.
    module_name = f"{__package__}.{name}{'_' if keyword.iskeyword(name) else ''}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        return None
    # Commands have the name of their module; that of others, such as `import_`, is none.
    return cast("Command", module) if getattr(module, "NAME", None) == name else None


def commands() -> list[Command]:
    """Return all commands, in alphabetical order."""
    package = importlib.import_module(__package__)
    found = (
        find(module.name.removesuffix("_")) for module in pkgutil.iter_modules(package.__path__)
    )
    return [item for item in found if item is not None]


def parts_of(item: Command) -> Sequence[Command]:
    """Return the parts of a command."""
    return item.PARTS if isinstance(item, HasParts) else ()


def parser_of(item: Command) -> Parser:
    """Return the parser of a command."""
    parser = Parser(f"warpline {item.NAME}", description=f"{item.HELP[0].upper()}{item.HELP[1:]}.")
    parser.set_defaults(command=item.NAME)
    item.add_arguments(parser)
    return parser


def overview() -> str:
    """Return the text of ``warpline --help``."""
    items = commands()
    width = max(len(item.NAME) for item in items)
    lines = [f"  {item.NAME:{width}}  {item.HELP}" for item in items]
    options = {
        "-h, --help": "show this help; after a command, the help of the command",
        "-V, --version": "show the version",
        "--debug": "show a traceback on errors",
    }
    variables = {
        "NO_COLOR": "disable color",
        "FORCE_COLOR": "enable color on pipes",
        "WARPLINE_SSH": "command line to use in place of ssh",
    }
    left = max(width + 4, *map(len, (*options, *variables)))
    usage, about, before = _USAGE, _ABOUT, _WITHOUT_COMMAND
    if not installation.reads():
        usage, about, before = _USAGE.splitlines()[-1].strip(), _ABOUT_AGENT, "Commands:"
    return "\n".join(
        [
            f"usage: {usage}",
            "",
            about,
            "",
            before,
            *lines,
            "",
            "Options:",
            *(f"  {name:{left}}  {text}" for name, text in options.items()),
            "",
            "Environment:",
            *(f"  {name:{left}}  {text}" for name, text in variables.items()),
        ]
    )


def _invocation(item: Command, words: Sequence[str]) -> Callable[[], int]:
    if isinstance(item, HasParts) and (part := item.part(words)) is not None:
        own_name = part.NAME.rpartition(" ")[2]
        return _invocation(part, words[1:] if words[0] == own_name else words)
    parser = parser_of(item)
    asks_for_help, read = _asks_for_help, parser.read
    if isinstance(item, OwnGrammar):
        asks_for_help, read = item.asks_for_help, item.read
    if asks_for_help(words):
        return lambda: _print(parser.format_help().rstrip())
    if item.NAME in _OF_PROGRAMS:
        installation.require_linux()
    args = read(words)
    if isinstance(item, OwnGrammar):  # it shows its own progress
        return lambda: item.run(args)
    return lambda: _run(item, args)


def _run(item: Command, args: Namespace) -> int:
    with bar.shown(args):
        lists = (getattr(args, name, None) or () for name in _RECORDINGS)
        has_places = any(":" in word for words in lists for word in words)
        if has_places and not isinstance(item, ReadsElsewhere):
            copying.copy_named(args)
        return item.run(args)


def _asks_for_help(words: Sequence[str]) -> bool:
    """Return whether the words ask for help, even if other words are wrong."""
    options = words[: words.index("--")] if "--" in words else words
    return "-h" in options or "--help" in options


def _joined(words: Sequence[str], switches: Collection[str]) -> list[str]:
    """Join words that belong together but that argparse would separate.

    Negative times (``--filter-time -5ms/5ms``) look like options, nsys lets true or false follow
    some switches, and words after ``--`` are files.
    """
    joined: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return joined + [f"./{w}" if w.startswith("-") else w for w in words[place + 1 :]]
        before = joined[-1] if joined else ""
        if before in {"--filter-time", "--times"} and _LEADING_MINUS.match(word):
            joined[-1] = f"{before}={word}"
        elif before in switches and word in {"true", "false"}:
            joined[-1:] = [before] if word == "true" else []
        elif word.partition("=")[0] in switches and word.endswith(("=true", "=false")):
            joined += [word.partition("=")[0]] if word.endswith("=true") else []
        else:
            joined.append(word)
    return joined


def _did_you_mean(word: str, known: Sequence[str]) -> str | None:

    near = [name for name in known if name.lower() == word.lower()][:1]
    near = near or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    near = near or [name for name in known if name.startswith(word)][:1]
    return f"did you mean {near[0]}?" if near else None


def _terminal_width() -> int:

    return shutil.get_terminal_size().columns - 2


def _version() -> str:

    return f"{installation.package()} {__version__}"


def _print(text: str) -> int:
    if sys.stdout is None:
        raise WarplineError("standard output is closed")
    sys.stdout.write(text + "\n")
    return 0
