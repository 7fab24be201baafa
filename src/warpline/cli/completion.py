"""``warpline completion``: a shell completion script."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError, WarplineError

if TYPE_CHECKING:
    import shtab

    from warpline import plugins, render, result, schema
    from warpline.cli import parser as parsing
else:
    shtab = lazy("shtab")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    result = lazy("warpline.result")
    schema = lazy("warpline.schema")
    parsing = lazy("warpline.cli.parser")

NAME = "completion"
HELP = "print a shell completion script for commands, options and tables"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"{parser.prog} SHELL"
    parser.add_argument(
        "shell",
        nargs="?",
        metavar="SHELL",
        help="bash, zsh, tcsh, or another shell that shtab supports",
    )


def run(args: Namespace) -> int:
    """Print the script; ``eval "$(warpline completion bash)"`` activates it."""
    try:
        known = shtab.SUPPORTED_SHELLS
    except ImportError:
        raise WarplineError(
            "the package shtab is not installed", hint="run pip install shtab"
        ) from None
    shells = ", ".join(known)
    if args.shell is None:
        raise UsageError("missing SHELL argument", hint=f"use {shells}")
    if args.shell not in known:
        raise UsageError(f"unknown shell {args.shell!r}", hint=f"use {shells}")
    return write_text(shtab.complete(_everything(shtab.FILE), args.shell))


def _everything(files: object) -> ArgumentParser:
    """Return one parser of all commands, with the choices of their arguments.

    Args:
        files: The shtab completer of file names.
    """
    root = ArgumentParser(prog="warpline")
    root.add_argument("-V", "--version", action="store_true", help="show the version")
    choices = _choices()
    subparsers = root.add_subparsers(parser_class=ArgumentParser)
    for item in parsing.commands():
        below = subparsers.add_parser(item.NAME, help=item.HELP)
        item.add_arguments(below)
        for action in below._actions:  # noqa: SLF001 - argparse has no public way
            if action.dest in choices:
                action.choices = choices[action.dest]
            elif action.dest in {"recordings", "output", "copy"}:
                setattr(action, "complete", files)  # noqa: B010 - read by shtab
    return root


def _choices() -> dict[str, list[str]]:
    """Return the choices of some arguments, by argument name."""
    plugins.load("analyses")
    plugins.load("renderers")
    return {
        "report": result.ANALYSES.names(),
        "table": [*result.ANALYSES.names(), *schema.TABLES],
        "format": render.RENDERERS.names(),
        "timeunit": ["ns", "us", "ms", "s"],
        "shell": list(shtab.SUPPORTED_SHELLS),
    }
