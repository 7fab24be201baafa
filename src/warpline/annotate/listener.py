"""Detect a profiler, and load the nvtx package if there is one.

A library's NVTX looks for a profiler once, at its first call, and is disabled forever if there is
none. So this module does not call NVTX before a profiler is present: functions can be annotated and
run before a profile starts, and are recorded from then on.

After a profiler was present, calls continue to reach NVTX: a pushed range must be popped.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

INJECTION = "NVTX_INJECTION64_PATH"

# Where a profiler in the CUDA driver announces itself; NVTX looks there too.
_DRIVER_INJECTION = "nvidia/nvtx/nvtx-cuda.yaml"


class Domain:
    """The functions of an NVTX domain, for all supported versions of nvtx.

    Attributes:
        push: Opens a range with the given attributes on the calling thread.
        pop: Closes the innermost open range of the calling thread.
        start: Opens a range that any thread can close; returns the argument for `end`.
        end: Closes such a range.
        mark: Records a mark with the given attributes.
    """

    __slots__ = ("_domain", "end", "mark", "pop", "push", "start")

    push: Callable[[Any], Any]
    pop: Callable[[], Any]
    start: Callable[[Any], Any]
    end: Callable[[Any], Any]
    mark: Callable[[Any], Any]

    def __init__(self, nvtx: Any, name: str | None) -> None:
        domain = nvtx.get_domain(name)
        self._domain = domain
        if hasattr(domain, "push_range"):
            self.push, self.pop, self.mark = domain.push_range, domain.pop_range, domain.mark
            self.start, self.end = domain.start_range, domain.end_range
        else:  # nvtx 0.2.11: functions that take the domain's handle
            calls, handle = nvtx._lib, domain.handle  # noqa: SLF001 - no domain has methods there
            self.push = lambda attributes: calls.push_range(attributes, handle)
            self.pop = partial(calls.pop_range, handle)
            self.mark = lambda attributes: calls.mark(attributes, handle)
            self.start = lambda attributes: calls.start_range(attributes, handle)
            self.end = calls.end_range

    def pushing(self, attributes: Any) -> Callable[[], Any]:
        """Return the fastest function that opens a range with these attributes."""
        quick: Any = getattr(sys.modules["nvtx"], "_lib", None)
        handle = getattr(self._domain, "handle", None)
        if handle is None or not hasattr(quick, "push_range"):
            return partial(self.push, attributes)
        return partial(quick.push_range, attributes, handle)

    def attributes(
        self, message: str | None, color: Any, category: str | int | None, payload: Any
    ) -> Any:
        """Return the attributes for `push`, `start` and `mark`.

        Invalid attributes are dropped with a warning: a program must not fail because it is
        profiled.
        """
        try:
            return self._domain.get_event_attributes(message, color, category, payload)
        except (TypeError, ValueError, RuntimeError) as error:
            warnings.warn(f"annotation {message!r}: {error}", RuntimeWarning, stacklevel=4)
            return self._domain.get_event_attributes(message, None, None, None)


class Listener:
    """The state that annotations check before each call.

    Attributes:
        silent: Whether there is no profiler; False, as unknown, until the first annotation runs.
        domains: The domains in use, by name.
        is_used: Whether the program has annotations.
    """

    __slots__ = ("_lock", "domains", "is_used", "silent")

    def __init__(self) -> None:
        self.silent = False
        self.domains: dict[str | None, Domain] = {}
        self.is_used = False
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock, in a fork: another thread may have acquired the old one."""
        self._lock = threading.RLock()

    def listens(self) -> bool:
        """Return whether there is a profiler; look for one at the first call only."""
        self.is_used = True
        if not self.silent and not self.domains:
            self.silent = not profiler_present()
        return not self.silent

    def expect(self) -> None:
        """Register a profiler that starts in this process, so that NVTX finds it from now on.

        If there are annotations, nvtx is loaded immediately, so that its loading time is not in the
        recording.
        """
        with self._lock:
            self.silent = switched_off()
            if self.is_used and not self.silent:
                load_nvtx()

    def forget(self) -> None:
        """Unregister a profiler: NVTX no longer finds it."""
        with self._lock:
            self.silent = not self.domains

    def look_again(self) -> None:
        """Take note of a profiler that was there before one in this process, and still is."""
        with self._lock:
            self.silent = not self.domains and not profiler_present()

    def domain(self, name: str | None) -> Domain | None:
        """Return the domain with a name, created in NVTX at its first use; None if silent.

        Raises:
            ImportError: The nvtx package is not installed.
        """
        found = self.domains.get(name)
        if found is None:
            with self._lock:  # against `forget`: NVTX must not look without a profiler
                if self.silent:
                    return None
                found = self.domains[name] = Domain(load_nvtx(), name)
        return found


def switched_off() -> bool:
    """Return whether NVTX_DISABLE turns annotations off, as in the nvtx package."""
    return bool(os.environ.get("NVTX_DISABLE"))


def profiler_present() -> bool:
    """Return whether NVTX would find a profiler in this process."""
    if switched_off():
        return False
    if os.environ.get(INJECTION):
        return True
    folders = ["/run", os.environ.get("XDG_RUNTIME_DIR", "/run")]
    return any(os.access(f"{folder}/{_DRIVER_INJECTION}", os.F_OK) for folder in folders)


def load_nvtx() -> Any:
    """Return the nvtx package after its NVTX has looked for a profiler.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import nvtx  # noqa: PLC0415 - loads numpy in some versions; for profiled programs only
        from nvtx._lib.lib import initialize  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"annotations require the nvtx package, which cannot be imported: {error}; "
            "install it with: pip install nvtx"
        ) from error
    initialize()
    return nvtx


LISTENER = Listener()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LISTENER.renew_lock)
