"""``python -m warpline``."""

import sys

from warpline.cli import main

if __name__ == "__main__":
    sys.exit(main())
