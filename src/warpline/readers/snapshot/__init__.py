"""Memory snapshots of PyTorch: pickles that torch.cuda.memory._dump_snapshot writes.

Nothing in a pickle is run: see `warpline.pickles`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy
from warpline.readers.snapshot.sniff import FORMAT, identify_archive, is_pickle
from warpline.trace import READERS, Reader, TableSource

if TYPE_CHECKING:
    from warpline.readers.snapshot import source
else:
    source = lazy("warpline.readers.snapshot.source")


def read(path: Path) -> TableSource:
    """Open a snapshot. Raises InputError when it cannot be used."""
    return source.read_file(path)


READERS.add(
    FORMAT,
    Reader(
        name=FORMAT,
        doc="Memory snapshots of PyTorch, written by torch.cuda.memory._dump_snapshot.",
        extensions=(".pickle", ".pickle.gz"),
        sniff=is_pickle,
        read=read,
        identify=identify_archive,
    ),
)
