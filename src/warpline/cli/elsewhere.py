"""The launcher on the other machine of ``warpline profile --host``; see `warpline.remote`."""

from __future__ import annotations

from warpline.cli import running
from warpline.remote import job


def main() -> None:
    """Record the program of the job that the command line names."""
    job.run(job.folder_named(), running.talk_of)
