"""The recordings of one side of a comparison, as they are named on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.comparison import baselines
else:
    baselines = lazy("warpline.comparison.baselines")


def check_runs(words: Sequence[str]) -> None:
    """Check that words name recordings, each once: a run counted twice would seem to repeat itself.

    Raises:
        UsageError: A file does not exist, is named twice, or is a baseline.
    """
    seen: set[Path] = set()
    for word in words:
        path = Path(word)
        if not path.exists():
            raise UsageError(f"{word}: no such file", hint="name recordings")
        if path.resolve() in seen:
            raise UsageError(f"{word} is named twice", hint="name each run once")
        seen.add(path.resolve())
        if path.suffix == baselines.SUFFIX and path.is_file() and baselines.is_baseline(path):
            raise UsageError(
                f"{word} is a baseline, not a recording",
                hint=f"warpline gate --folder {path.parent} --baseline {path.stem} RECORDING...",
            )
