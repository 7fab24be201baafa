"""``warpline`` and ``python -m warpline``: the command line as a process of its own."""

import atexit
import gc
import os
import sys
from typing import NoReturn

from warpline.cli import main

# New objects until the garbage collector looks for garbage; Python's default is 700. Modules and
# tables are tens of thousands of objects, and none of them is garbage.
_COLLECT_AFTER = 100_000


def run() -> NoReturn:
    """Run the command line and end the process with its exit status."""
    gc.set_threshold(_COLLECT_AFTER)
    status = 1

    def end() -> None:
        """End the process at once: the system frees its memory faster than Python each object."""
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            return  # Python reports it
        os._exit(status)

    # Registered first, it is called last: when threads have ended and all others were called. Who
    # registered before, such as a tool that measures coverage, must still be called.
    if not atexit._ncallbacks():  # noqa: SLF001 - there is no public name
        atexit.register(end)
    status = main()
    sys.exit(status)


if __name__ == "__main__":
    run()
