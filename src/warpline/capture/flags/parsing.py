"""Parse the command line of ``warpline profile``: flags as in ``nsys profile``, then a program.

A flag takes its value after ``=``, as the next word or, in its short form, attached
(``-sprocess-tree``). Flags end at ``--`` or at the first word that is not a flag. The rest is the
program's command line.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from pathlib import Path

from warpline.capture.flags import capabilities
from warpline.capture.flags.declarations import FALSE_WORDS, FLAGS_BY_NAME, HINT, TRUE_WORDS, Flag
from warpline.capture.flags.nsys import FOREIGN_FLAGS, IDLE_VALUES, ForeignFlag
from warpline.capture.flags.settings import CaptureRange, CaptureSettings
from warpline.capture.session.agent_config import WaitSource
from warpline.capture.session.control import RangeMode
from warpline.errors import UsageError

_MAX_COMMAND_FILES = 8


def parse(words: Sequence[str]) -> CaptureSettings:
    """Return the settings that the command line makes.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, or two flags conflict.
    """
    settings = CaptureSettings()
    _Reader(settings).read(list(words))
    _check(settings)
    return settings


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given before the program."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        name = words[place].partition("=")[0]
        if name in {"-h", "--help"}:
            return True
        place += 1 + _takes_next(words, place)
    return False


def flag_named(name: str) -> Flag | ForeignFlag | None:
    """Return the flag with this name, or None."""
    return FLAGS_BY_NAME.get(name) or FOREIGN_FLAGS.get(name)


def _takes_next(words: Sequence[str], place: int) -> bool:
    """Return whether the word at an index is a flag that takes the next word as its value."""
    word = words[place]
    found = flag_named(word)
    if found is None:
        return False
    if isinstance(found, Flag) and not found.metavar:
        return False
    if isinstance(found, Flag) and found.is_switch:
        return place + 1 < len(words) and words[place + 1].lower() in TRUE_WORDS | FALSE_WORDS
    return True


class _Reader:
    """Reads flags up to the program's command line."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._said: set[str] = set()
        self._files = 0

    def read(self, words: list[str]) -> None:
        while words:
            word = words[0]
            if word == "--":
                self._settings.command = tuple(words[1:])
                return
            if not word.startswith("-") or word == "-":
                self._settings.command = tuple(words)
                return
            words = self._flag(words)

    def _flag(self, words: list[str]) -> list[str]:
        """Consume the first flag and return the remaining words."""
        word, rest = words[0], words[1:]
        if word.startswith("--"):
            name, equals, value = word.partition("=")
        else:
            name, value = word[:2], word[2:].removeprefix("=")
            equals = "=" if len(word) > 2 else ""
        found = flag_named(name)
        if found is None:
            raise _unknown(name)
        given: str | None = value if equals else None
        if given is None and _takes_next(words, 0):
            if not rest or rest[0] == "--":
                raise UsageError(f"{name} requires a value", hint=HINT)
            given, rest = rest[0], rest[1:]
        if name == "--command-file":
            return [*self._file(given or ""), *rest]
        if isinstance(found, ForeignFlag):
            self._foreign(found, name, given or "")
        else:
            self._own(found, name, given)
        return rest

    def _own(self, flag: Flag, name: str, value: str | None) -> None:
        if value is not None and not flag.metavar:
            raise UsageError(f"{name} takes no value", hint=HINT)
        self._settings.given.add(flag.attribute)
        flag.set(self._settings, name, "true" if value is None else value)

    def _foreign(self, flag: ForeignFlag, name: str, value: str) -> None:
        if value.lower() not in IDLE_VALUES and flag.name not in self._said:
            self._said.add(flag.name)
            self._settings.warnings.append(f"{name} is {flag.effect} ({flag.reason})")

    def _file(self, name: str) -> list[str]:
        """Return the words in a ``--command-file``."""
        self._files += 1
        if self._files > _MAX_COMMAND_FILES:
            raise UsageError(f"--command-file {name}: more than {_MAX_COMMAND_FILES} nested files")
        try:
            return shlex.split(Path(name).read_text(encoding="utf-8"), comments=True)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"--command-file {name}: {why}") from None


def _unknown(name: str) -> UsageError:
    known = [*FLAGS_BY_NAME, *FOREIGN_FLAGS]
    near = difflib.get_close_matches(name, [word for word in known if len(word) > 2], n=1)
    hint = f"did you mean {near[0]}?" if near else f"{HINT}; put the program's flags after its name"
    return UsageError(f"unknown flag {name!r} of warpline profile", hint=hint)


def _check(settings: CaptureSettings) -> None:
    """Reject conflicting flags and warn about flags without effect."""
    if not settings.command:
        raise UsageError("missing PROGRAM argument", hint="run warpline profile -- python train.py")
    if settings.nvtx_domain_include and settings.nvtx_domain_exclude:
        raise UsageError(
            "--nvtx-domain-include and --nvtx-domain-exclude cannot be combined", hint="use one"
        )
    if settings.capture_range is CaptureRange.NVTX and settings.nvtx_capture is None:
        raise UsageError("-c nvtx requires -p", hint="use -c nvtx -p RANGE[@DOMAIN]")
    if settings.duration is None and not settings.stop_on_exit:
        raise UsageError("-x false requires --duration", hint="use -d SECONDS -x false")
    _check_sampling(settings)
    warn = settings.warnings.append
    if settings.nvtx_capture is not None and settings.capture_range is not CaptureRange.NVTX:
        warn("-p is ignored (it requires -c nvtx)")
    if settings.capture_range is not CaptureRange.NONE and settings.mode is RangeMode.NONE:
        warn(f"-c {settings.capture_range} is not supported; the whole run is recorded")
    if "capture_range_end" in settings.given and settings.capture_range is CaptureRange.NONE:
        warn("--capture-range-end is ignored (it requires -c)")
    if "trace" in settings.given:
        lacking = capabilities.lacking(settings.trace)
        if lacking:
            warn(f"-t {','.join(lacking)} is not recorded ({capabilities.WHY_NOT})")


def _check_sampling(settings: CaptureSettings) -> None:
    """Reject incomplete or conflicting flags for step sampling."""
    steps, every, duty = settings.steps, settings.every, settings.duty
    if steps is None and every is None and duty is None:
        if settings.step_range is not None:
            settings.warnings.append("--step-range is ignored (it requires --steps or --duty)")
        if "cuda_detach" in settings.given:
            settings.warnings.append("--cuda-detach is ignored (it requires --steps or --duty)")
        return
    if settings.cuda_waits is WaitSource.CUPTI:
        settings.warnings.append(
            "--cuda-waits=cupti is ignored (it would also add overhead to launches between samples)"
        )
    if every is not None and duty is not None:
        raise UsageError("--every and --duty cannot be combined", hint="use one")
    if duty is None and (steps is None or every is None):
        needs = (
            "--every requires --steps" if steps is None else "--steps requires --every or --duty"
        )
        raise UsageError(needs, hint="use --steps 5 --every 100, or --duty 2%")
    if steps is not None and every is not None and steps > every:
        raise UsageError(
            f"--steps {steps} exceeds --every {every}", hint="use fewer steps per sample"
        )
    if settings.capture_range not in {CaptureRange.NONE, CaptureRange.CUDA_PROFILER_API}:
        raise UsageError(
            f"-c {settings.capture_range} and step sampling cannot be combined",
            hint="use --step-range to name the range that starts a step",
        )
