"""Sampled metrics of GPUs, recorded beside the program: the launcher's end.

The process at the other end, `metric_samplers`, is forked before the program starts. Only what a
user named is worth waiting for: metrics of a file, and GPUs by number.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.capture.collectors.metrics_request import MetricsRequest
from warpline.capture.collectors.sampler_links import LAST_S, received
from warpline.capture.machine.orphans import start_orphan
from warpline.errors import UsageError
from warpline.lazy import lazy

if TYPE_CHECKING:
    from warpline.capture.collectors import metric_samplers
    from warpline.capture.session import sample_file
else:  # the first is for the other process
    metric_samplers = lazy("warpline.capture.collectors.metric_samplers")
    sample_file = lazy("warpline.capture.session.sample_file")

_LIMIT_S = 30.0  # for the answer to what a user named: drivers may take seconds to start


class GpuMetrics:
    """The processes that sample; they end when this object is closed, or the launcher dies.

    Create it while this process has one thread and is no subreaper.

    Args:
        request: What to sample; None for nothing.
        environment: The program's environment.
        cupti: CUPTI libraries, the best one first.

    Attributes:
        pid: The process; None if there is none.
    """

    def __init__(
        self, request: MetricsRequest | None, environment: Mapping[str, str], cupti: Sequence[Path]
    ) -> None:
        self.pid: int | None = None
        self._link: socket.socket | None = None
        self._request = request
        if request is None:
            return
        with contextlib.suppress(OSError):
            link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self.pid = start_orphan(
                    lambda: metric_samplers.serve(far, request, environment, cupti)
                )
                self._link = link
            finally:
                far.close()

    def check(self) -> None:
        """Wait until it is known whether what a user named can be sampled.

        Raises:
            UsageError: It cannot.
        """
        if self._link is None or self._request is None or not self._request.is_checked:
            return
        answer = received(self._link, _LIMIT_S)
        if "error" in answer:
            raise UsageError(answer["error"], hint=answer.get("hint"))

    def start(self, folder: Path) -> None:
        """Begin to sample.

        The file is made here: the directory may be deleted at any time, and a process that adds
        files to it would be in the way.

        Args:
            folder: The session directory.
        """
        if self._link is None:
            return
        start = json.dumps({"folder": os.fspath(folder.absolute())}).encode()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(sample_file.path_of(folder), flags, 0o600)
            try:
                socket.send_fds(self._link, [start], [descriptor])
            finally:
                os.close(descriptor)
        except OSError:
            self.close()

    def release(self) -> socket.socket | None:
        """Return the link, which others close; None if there is no process."""
        link, self._link = self._link, None
        return link

    def close(self) -> None:
        """Let the last samples be written, and end; a second call does nothing."""
        if self._link is None:
            return
        link, self._link = self._link, None
        with link, contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_WR)
            end = time.monotonic() + LAST_S
            while "ended" not in received(link, end - time.monotonic()):
                pass
