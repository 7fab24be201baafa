"""What ``--when`` asks for: conditions under which the kept seconds are written."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Any

from warpline.errors import UsageError

_STEP = re.compile(
    r"step\s*>=?\s*(?P<number>\d+(?:\.\d+)?)\s*(?:(?P<median>[x*]\s*median)|(?P<unit>ms|s|min))"
)
_HANG = re.compile(r"hang\s*>?=?\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min)")
_SIGNAL = re.compile(r"signal\s+(?:sig)?(?P<name>usr[12])")
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
_HINT = 'use --when "step > 2 x median", "step > 500ms", "hang 30s" or "signal USR2"'


@dataclass(frozen=True)
class Triggers:
    """Conditions, each None if it is not asked for.

    Attributes:
        step_ratio: A step takes more than this many times the median of earlier steps.
        step_s: A step takes more seconds.
        hang_s: Nothing has been recorded for so many seconds.
        signal: The launcher receives this signal, which the program then does not.
    """

    step_ratio: float | None = None
    step_s: float | None = None
    hang_s: float | None = None
    signal: int | None = None

    @property
    def needs_steps(self) -> bool:
        """Whether steps must be found."""
        return self.step_ratio is not None or self.step_s is not None

    @classmethod
    def of(cls, text: str) -> Triggers:
        """Return the conditions in a value of the flag, separated by commas.

        Raises:
            UsageError: One is malformed.
        """
        found: dict[str, Any] = {}
        for part in filter(None, (each.strip().lower() for each in text.split(","))):
            step, hang, sent = (each.fullmatch(part) for each in (_STEP, _HANG, _SIGNAL))
            if step is not None and step["median"]:
                found["step_ratio"] = float(step["number"])
            elif step is not None:
                found["step_s"] = float(step["number"]) * _SECONDS[step["unit"]]
            elif hang is not None:
                found["hang_s"] = float(hang["number"]) * _SECONDS[hang["unit"]]
            elif sent is not None:
                found["signal"] = int(signal.Signals[f"SIG{sent['name'].upper()}"])
            else:
                raise UsageError(f"--when {part!r} is not a condition", hint=_HINT)
        if not found or not all(found.values()) or found.get("step_ratio", 2) <= 1:
            raise UsageError(f"--when {text!r} is not a condition", hint=_HINT)
        return cls(**found)
