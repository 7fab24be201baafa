"""A range for each wait for a batch of a DataLoader.

The names are those of PyTorch's own profiler: enumerate(DataLoader)#CLASS.__next__.
"""

from __future__ import annotations

from .context import Context
from .named_ranges import NamedRanges
from .wrapping import Wrapping

_wrapping = Wrapping()


def start(context: Context) -> None:
    """Record the waits for batches from now on."""
    from torch.utils.data import dataloader  # noqa: PLC0415 - the program has imported torch

    ranges = NamedRanges(context)
    iterator = dataloader._BaseDataLoaderIter  # noqa: SLF001
    _wrapping.replace(iterator, "__next__", ranges.wrapper("enumerate(DataLoader)", "__next__"))


def stop() -> None:
    """Record no more waits."""
    _wrapping.restore()
