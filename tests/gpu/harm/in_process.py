"""Runs a Python program that records itself: python -m gpu.harm.in_process FILE MODULE WORD..."""

from __future__ import annotations

import runpy
import sys
import warnings

import warpline


def main() -> None:
    """Run the module that the command line names within `with warpline.profile()`."""
    path, module, *words = sys.argv[1:]
    sys.argv = [module, *words]
    # What the recording lacks stands in it, too; the program's stderr is to be its own.
    warnings.simplefilter("ignore")
    with warpline.profile(path):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
