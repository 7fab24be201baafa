"""The NVTX ranges that were open when a kernel was launched."""

from __future__ import annotations

from warpline.readers.ncu.wire import Message

_UNNAMED = b"<default domain>"


def open_ranges(state: Message, thread: int) -> bytes | None:
    """Return the push/pop ranges of a thread, outermost first; None without any.

    Ranges of a domain are joined by slashes, domains by semicolons: ``step/forward@model``.

    Raises:
        WireError: The state is damaged.
    """
    names = {domain.number(1): domain.raw(2) or b"" for domain in state.messages(1)}
    paths = []
    for owner in state.messages(2):
        if owner.number(1) != thread:
            continue
        for domain in owner.messages(2):
            path = b"/".join(opened.raw(1) or b"" for opened in domain.messages(3))
            name = names.get(domain.number(1), _UNNAMED)
            if path:
                paths.append(path if name == _UNNAMED else path + b"@" + name)
    return b"; ".join(paths) if paths else None
