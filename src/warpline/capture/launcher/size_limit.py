"""The size at which recording stops: as given, or a default in jobs of many ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from warpline.capture.flags.settings import CaptureSettings
from warpline.units import format_bytes

FEW_RANKS = 8  # up to here, nothing is limited by default
DEFAULT_BYTES = 512 << 20
# Set by launchers for each rank: torchrun and others, srun, Open MPI, MPICH and Intel MPI, MVAPICH.
_SIZES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
          "MV2_COMM_WORLD_SIZE")  # fmt: skip
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")


class SizeLimit(NamedTuple):
    """When recording stops.

    Attributes:
        bytes: What the events of this session may take on the disk.
        ranks: Number of ranks of the job, if that is why there is a limit; else None.
        is_told: Whether this rank says so at the start; all others would say the same.
    """

    bytes: int
    ranks: int | None
    is_told: bool

    @property
    def announcement(self) -> str:
        """What is said at the start."""
        return (
            f"a job of {self.ranks:,} ranks: each rank's recording stops at"
            f" {format_bytes(self.bytes)} of events (--max-size=none: no limit)"
        )

    @property
    def note(self) -> str:
        """What is said when it has been reached, and in the recording."""
        why = ""
        if self.ranks is not None:
            why = f", the default in jobs of more than {FEW_RANKS} ranks"
        return (
            f"recording stopped at {format_bytes(self.bytes)} of events (--max-size{why}); the"
            " program went on"
        )


def size_limit(settings: CaptureSettings, environment: Mapping[str, str]) -> SizeLimit | None:
    """Return when recording stops; None for no limit.

    Without ``--max-size``, it is limited in jobs of more than 8 ranks, unless ``--keep-last``
    bounds it, or something else than a timeline is recorded.

    Args:
        settings: The settings of the recording.
        environment: That of the launcher.
    """
    if settings.max_size is not None:
        return SizeLimit(settings.max_size, None, is_told=False) if settings.max_size else None
    ranks = _first_number(environment, _SIZES)
    is_bounded = settings.kept is not None or not settings.is_timeline
    if ranks is None or ranks <= FEW_RANKS or is_bounded:
        return None
    return SizeLimit(DEFAULT_BYTES, ranks, is_told=_first_number(environment, _RANKS) in {0, None})


def _first_number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    found = (environment.get(name, "") for name in names)
    numbers = (int(text) for text in found if text.isascii() and text.isdecimal())
    return next(numbers, None)


def disk_bytes(folder: Path) -> int:
    """Return what the files of a session's directory take on the disk."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    total += disk_bytes(Path(entry.path))
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
