"""What launcher, `metric_samplers` and `metric_sampler` share: messages, JSON in packets."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

SAMPLER = "warpline.capture.collectors.metric_sampler"  # the module of the process for a GPU
LAST_S = 5.0  # for the last samples

_MOST_BYTES = 1 << 20


def received(link: socket.socket, limit_s: float) -> Mapping[str, Any]:
    """Return the next message; one that ends everything if there is none."""
    link.settimeout(max(limit_s, 1e-3))
    try:
        data = link.recv(_MOST_BYTES)
    except OSError:
        data = b""
    found: Mapping[str, Any] = json.loads(data) if data else {"ended": True}
    return found
