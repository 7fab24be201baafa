"""`python -m warpline.annotate script.py`: run a program with a range for each of its functions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpline.annotate.functions import DOMAIN, Choice, FunctionRanges
from warpline.annotate.listener import LISTENER
from warpline.annotate.running import ProgramNotFoundError, find_module, find_script, run

_DESCRIPTION = f"""
Run a Python program with an NVTX range for every call of a function in its own modules: those in
the script's directory or the current directory, not the standard library or installed packages. The
ranges are in the domain "{DOMAIN}". PATTERN is package, package.module or
package.module.Class.function, with shell wildcards."""

_NOTHING_LISTENS = (
    "warpline: no profiler is attached, so no function is recorded; "
    "use: warpline profile -- python -m warpline.annotate ...\n"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m warpline.annotate",
        description=_DESCRIPTION,
        epilog="To record: warpline profile -- python -m warpline.annotate script.py",
    )
    for flag, meaning in (
        ("--include", "also include matching functions from any module"),
        ("--exclude", "exclude matching functions"),
    ):
        parser.add_argument(flag, metavar="PATTERN", action="append", default=[], help=meaning)
    parser.add_argument("-m", dest="is_module", action="store_true", help="TARGET is a module")
    parser.add_argument("target", metavar="TARGET", help="the script or, with -m, the module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    return parser


def main() -> None:
    """Run the program given on the command line."""
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
