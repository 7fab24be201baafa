"""Values of flags of ``warpline kernels`` that choose launches, each stored in the settings."""

from __future__ import annotations

import re

from warpline.capture.flags import values
from warpline.capture.flags.counting import CountingSettings
from warpline.capture.flags.grammar import FALSE_WORDS, TRUE_WORDS, Given
from warpline.capture.flags.nvtx_ranges import REGEX, parse_ranges
from warpline.errors import UsageError

_INSTANCES = re.compile(r"\d{1,18}(-\d{1,18})?(,\d{1,18}(-\d{1,18})?)*")
_RANGE_FILTER_HINT = (
    "use [yes|no]:INSTANCES:NVTX_INSTANCES, such as ::3 for the third NVTX range, :2-5: or :2|4:"
)
_MOST = (1 << 63) - 1


def number(settings: CountingSettings, flag: Given) -> None:
    """Store a number of launches."""
    text = flag.value.removeprefix("+")
    if not (text.isascii() and text.isdecimal()) or int(text) > _MOST:
        raise UsageError(f"{flag.name} {flag.value}: must be >= 0", hint=flag.hint)
    setattr(settings, flag.attribute, int(text))


def name(settings: CountingSettings, flag: Given) -> None:
    """Store the name of a kernel."""
    values.text(settings, flag)
    _check_expression(flag.value)


def _check_expression(text: str) -> None:
    """Raise UsageError if a name is ``regex:`` and an invalid expression."""
    if text.startswith("regex:"):
        try:
            re.compile(text.removeprefix("regex:"))
        except re.error as error:
            raise UsageError(f"invalid expression {text!r}: {error}") from None


def kernel_id(settings: CountingSettings, flag: Given) -> None:
    """Add ``CONTEXT:STREAM:NAME:INVOCATION``."""
    context, _, rest = flag.value.partition(":")
    stream, _, rest = rest.partition(":")
    name, colon, _ = rest.rpartition(":")
    if not colon or not all(not part or part.isdecimal() for part in (context, stream)):
        raise UsageError(
            f"invalid {flag.name} {flag.value!r}",
            hint="use CONTEXT:STREAM:NAME:INVOCATION, such as ::vec_add:2; parts may be empty",
        )
    _check_expression(name)
    settings.kernel_id = (*settings.kernel_id, flag.value)


def devices(settings: CountingSettings, flag: Given) -> None:
    """Add numbers of GPUs."""
    words = [word.strip() for word in flag.value.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdecimal() for word in words):
        raise flag.bad("numbers of GPUs, such as 0,1")
    settings.devices = (*settings.devices, *map(int, words))


def nvtx_ranges(settings: CountingSettings, flag: Given) -> None:
    """Add an NVTX expression."""
    found = (*getattr(settings, flag.attribute), parse_ranges(flag.name, flag.value))
    setattr(settings, flag.attribute, found)


def range_filter(settings: CountingSettings, flag: Given) -> None:
    """Store which instances of ranges are meant."""
    parts = flag.value.split(":")
    word = parts[0].lower()
    if len(parts) != 3 or (word and word not in TRUE_WORDS | FALSE_WORDS) or not any(parts[1:]):
        raise UsageError(f"invalid {flag.name} {flag.value!r}", hint=_RANGE_FILTER_HINT)
    windows, ranges = (_instances(flag, part) for part in parts[1:])
    settings.range_filter = (word in TRUE_WORDS, windows, ranges)


def _instances(flag: Given, text: str) -> str:
    """Return which instances are meant, as the agent reads it; empty for all."""
    if not text or _INSTANCES.fullmatch(text):
        return text
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{flag.name} {flag.value}: invalid expression {text!r}: {error}",
            hint=_RANGE_FILTER_HINT,
        ) from None
    return REGEX + text


def processes(settings: CountingSettings, flag: Given) -> None:
    """Add filters of processes."""
    words = [word.strip() for word in flag.value.split(",")]
    for word in words:
        name = word.partition(":")[2] if word.startswith(("exclude:", "exclude-tree:")) else word
        if not name or name == REGEX:
            raise flag.bad("NAME, regex:EXPRESSION, exclude:NAME or exclude-tree:NAME")
        _check_expression(word)
    settings.target_processes_filter = (*settings.target_processes_filter, *words)
