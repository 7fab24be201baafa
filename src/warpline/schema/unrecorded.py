"""Why the events of an API are missing from a recording: a code, its parameter, and a sentence.

Agents note the code, recordings store it, and whatever shows it makes the sentence here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from warpline.frozen import frozen

_NOT_RECORDED = " was not recorded: "
_IN_PLACE = {  # of a timeline -> the beginning of the warning
    "counters": "hardware counters were not collected: ",
    "pc samples": "program counters were not sampled: ",
}
_STOP = "; stop it"
_IMPORT_FAILED = "nsys could not import the {} events: "
_NOT_IMPORTED_HINT = (
    "Import the recording again, or profile again, with the newest nsys. Record less at a time:"
    " -t cuda,nvtx, and a few steps"
)


class Code(enum.StrEnum):
    """Why events could not be recorded, and what the parameter is."""

    UNAVAILABLE = "unavailable"  # the reason: CUPTI is missing, or returned an error
    HELD = "held"  # the other profiler that uses CUPTI, which supports one
    UNSHARED = "unshared"  # the other profiler that uses CUPTI and does not share it
    NOT_IMPORTED = "not-imported"  # the profiler's error when it read what it had recorded
    ADVISED = "advised"  # the reason, a tab and the next action
    SENTENCE = "sentence"  # reason and advice, as recordings of earlier versions have them


# Reason and advice. Each reason is the parameter and these words.
_HELD: Mapping[Code, tuple[str, str]] = {
    Code.HELD: (
        " is using CUPTI, which supports one profiler with this CUDA and driver",
        "stop it, or, if it can share CUPTI, update CUDA to 13.3 and the driver to r610",
    ),
    Code.UNSHARED: (" is using CUPTI and does not share it", "stop it to record CUDA"),
}


@frozen
class Unrecorded:
    """Why the events of an API could not be recorded in a process.

    Attributes:
        api: The API, such as ``cuda``, or what is collected in place of a timeline.
        code: Why.
        parameter: What the code is about: a profiler, or the reason itself.
    """

    api: str
    code: Code
    parameter: str

    @classmethod
    def from_note(cls, api: str, text: str) -> Unrecorded:
        """Return the cause that an agent noted.

        It is a parameter, a tab and a code; a reason, a tab and the next action; or a reason.
        """
        parameter, _, code = text.rpartition("\t")
        if parameter:
            is_held = code in set(_HELD)
            return cls(api, Code(code), parameter) if is_held else cls(api, Code.ADVISED, text)
        return cls(api, Code.SENTENCE if _STOP in text else Code.UNAVAILABLE, text)

    @classmethod
    def from_sentence(cls, api: str, sentence: str) -> Unrecorded | None:
        """Return the cause in a warning of a recording; None if it is about something else."""
        for start, code in (
            (api.upper() + _NOT_RECORDED, Code.SENTENCE),
            (_IMPORT_FAILED.format(api.upper()), Code.NOT_IMPORTED),
        ):
            if sentence.startswith(start):
                return cls(api, code, sentence.removeprefix(start))
        return None

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Unrecorded | None:
        """Return the cause that a recording stores; None if its code is of a newer version."""
        api, code, parameter = (facts.get(name) for name in ("api", "code", "parameter"))
        if not (isinstance(api, str) and isinstance(code, str) and isinstance(parameter, str)):
            return None
        return cls(api, Code(code), parameter) if code in set(Code) else None

    @property
    def why(self) -> str:
        """The reason, such as "no CUPTI was found"."""
        if self.code is Code.SENTENCE:
            return self.parameter.partition(_STOP)[0]
        if self.code is Code.ADVISED:
            return self.parameter.partition("\t")[0]
        return self.parameter + _HELD.get(self.code, ("", ""))[0]

    @property
    def hint(self) -> str | None:
        """The next action, if it is known."""
        if self.code is Code.NOT_IMPORTED:
            return _NOT_IMPORTED_HINT
        if self.code is Code.SENTENCE:
            _, stop, rest = self.parameter.partition(_STOP)
            return stop.removeprefix("; ") + rest if stop else None
        if self.code is Code.ADVISED:
            return self.parameter.partition("\t")[2] or None
        return _HELD[self.code][1] if self.code in _HELD else None

    @property
    def reason(self) -> str:
        """The reason and the next action."""
        return f"{self.why}; {self.hint}" if self.hint else self.why

    @property
    def text(self) -> str:
        """The warning: one sentence."""
        if self.code is Code.NOT_IMPORTED:
            return _IMPORT_FAILED.format(self.api.upper()) + self.parameter
        if self.api in _IN_PLACE:
            return f"{_IN_PLACE[self.api]}{self.reason}"
        return f"{self.api.upper()}{_NOT_RECORDED}{self.reason}"
