"""`python -m warpline.annotate script.py`: a program with a range for every function of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpline.annotate.functions import DOMAIN, Choice, FunctionRanges
from warpline.annotate.listener import LISTENER
from warpline.annotate.running import ProgramNotFoundError, find_module, find_script, run

_DESCRIPTION = f"""
Run a Python program with an NVTX range for every call of a function of its own modules: those in
the script's folder or the current one, but not of Python or of installed packages. The ranges are
in the domain "{DOMAIN}". PATTERN is package, package.module or package.module.Class.function, with
the wildcards of a shell."""

_NOTHING_LISTENS = (
    "warpline: nothing listens, so no function is recorded; "
    "use: warpline profile -- python -m warpline.annotate ...\n"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m warpline.annotate",
        description=_DESCRIPTION,
        epilog="To record: warpline profile -- python -m warpline.annotate script.py",
    )
    for flag, meaning in (
        ("--include", "also functions that fit, wherever they are"),
        ("--exclude", "no functions that fit"),
    ):
        parser.add_argument(flag, metavar="PATTERN", action="append", default=[], help=meaning)
    parser.add_argument("-m", dest="is_module", action="store_true", help="TARGET is a module")
    parser.add_argument("target", metavar="TARGET", help="the script, or with -m the module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    return parser


def main() -> None:
    """Run the program that the command line names."""
    parser = _parser()
    options = parser.parse_args()
    try:
        find = find_module if options.is_module else find_script
        program = find(options.target)
    except ProgramNotFoundError as error:
        parser.error(str(error))
    if LISTENER.listens():
        folders = [program.folder, Path.cwd()]
        choice = Choice(folders, program.name, options.include, options.exclude)
        FunctionRanges(choice).start()
    else:
        sys.stderr.write(_NOTHING_LISTENS)
    run(program, options.arguments)


if __name__ == "__main__":
    main()
