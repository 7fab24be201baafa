"""python -m tests.gpu.harm, from the repository's root."""

from __future__ import annotations

import sys
from pathlib import Path

# The programs and the driver are modules of the folder tests, Warpline's lie in src.
ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from gpu.harm.run import main  # noqa: E402 - after the path is set

if __name__ == "__main__":
    sys.exit(main())
