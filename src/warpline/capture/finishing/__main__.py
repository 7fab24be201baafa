"""``python -m warpline.capture.finishing FOLDER --output PATH``."""

import sys

from warpline.capture.finishing.finish import main

sys.exit(main())
