"""``warpline completion``: the script by which a shell completes our words."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from warpline.cli.output import write_text
from warpline.errors import UsageError, WarplineError

NAME = "completion"
HELP = "the script that lets a shell complete commands, options and tables"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    parser.add_argument(
        "shell", nargs="?", metavar="SHELL", help="bash, zsh, tcsh, or another that shtab knows"
    )


def run(args: Namespace) -> int:
    """Print the script; ``eval "$(warpline completion bash)"`` puts it to use."""
    try:
        import shtab  # noqa: PLC0415 - only this command needs it
    except ImportError:
        raise WarplineError(
            "the package shtab is not installed", hint="pip install shtab"
        ) from None
    shells = ", ".join(shtab.SUPPORTED_SHELLS)
    if args.shell is None:
        raise UsageError("no shell is named", hint=f"shells: {shells}")
    if args.shell not in shtab.SUPPORTED_SHELLS:
        raise UsageError(f"unknown shell {args.shell!r}", hint=f"shells: {shells}")
    return write_text(shtab.complete(_everything(shtab.FILE), args.shell))


def _everything(files: object) -> ArgumentParser:
    """Return one parser of all commands, which knows what their words may be.

    Args:
        files: What completes the name of a file.
    """
    from warpline.cli import parser  # noqa: PLC0415 - it imports the commands

    root = ArgumentParser(prog="warpline")
    root.add_argument("-V", "--version", action="store_true", help="show the version")
    choices = _choices()
    subparsers = root.add_subparsers(parser_class=ArgumentParser)
    for item in parser.commands():
        below = subparsers.add_parser(item.NAME, help=item.HELP)
        item.add_arguments(below)
        for action in below._actions:  # noqa: SLF001 - argparse offers no other way to them
            if action.dest in choices:
                action.choices = choices[action.dest]
            elif action.dest in {"recordings", "output", "copy"}:
                setattr(action, "complete", files)  # noqa: B010 - an attribute that shtab reads
    return root


def _choices() -> dict[str, list[str]]:
    """Return what some arguments may be, by their name."""
    import shtab  # noqa: PLC0415 - only this command needs it

    from warpline import plugins  # noqa: PLC0415 - start-up: brings numpy
    from warpline.render import RENDERERS  # noqa: PLC0415 - likewise
    from warpline.result import ANALYSES  # noqa: PLC0415 - likewise
    from warpline.schema import TABLES  # noqa: PLC0415 - likewise

    plugins.load("analyses")
    plugins.load("renderers")
    return {
        "report": ANALYSES.names(),
        "table": [*ANALYSES.names(), *TABLES],
        "format": RENDERERS.names(),
        "timeunit": ["ns", "us", "ms", "s"],
        "shell": list(shtab.SUPPORTED_SHELLS),
    }
