"""Whether an answer is right: numbers in any unit within a tolerance, or words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"(?<![\w.])([-+]?(?:\d[\d,']*)?\.?\d+(?:[eE][-+]?\d+)?)\s*([A-Za-zµμ%]+)?")
# Units -> their size, in ns or bytes.
_SIZES = {
    "ns": {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {
        "b": 1.0,
        "byte": 1.0,
        "bytes": 1.0,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "kib": 2.0**10,
        "mib": 2.0**20,
        "gib": 2.0**30,
    },
}
_UNKNOWN = re.compile(
    r"can(not|'t) (say|be determined)|not (recorded|available|known)"
    r"|unknown|no data",
    re.IGNORECASE,
)
CANNOT_SAY = "cannot say"


def is_right(question: Mapping[str, Any], answer: Any) -> bool:
    """Return whether an answer to a question is right.

    Args:
        question: Of questions.json.
        answer: A number, in ns or bytes where the question has such a unit; or a text, with a
            number and its unit, with a name, or saying that the recording cannot say. The first
            number of a text counts.
    """
    wanted = question["answer"]
    if wanted == CANNOT_SAY:
        return isinstance(answer, str) and bool(_UNKNOWN.search(answer))
    if answer is None or isinstance(answer, bool):
        return False
    if isinstance(wanted, int | float):
        found = _number(answer, question.get("unit"))
        tolerance = question.get("tolerance", 0.0)
        return found is not None and math.isclose(found, wanted, rel_tol=max(tolerance, 1e-9))
    words = question.get("accept", [wanted])
    return any(str(word).lower() in str(answer).lower() for word in words)


def _number(answer: Any, unit: str | None) -> float | None:
    if isinstance(answer, int | float):
        return float(answer)
    found = _NUMBER.search(str(answer))
    if found is None:
        return None
    number = float(found[1].replace(",", "").replace("'", ""))
    sizes = _SIZES.get(unit or "", {})
    return number * sizes.get((found[2] or "").lower(), 1.0)
