"""What the rules of Nsight Compute say about a launch."""

from __future__ import annotations

import re

from warpline.frozen import frozen
from warpline.readers.ncu.wire import Message
from warpline.schema.labels import MESSAGE_KINDS, SPEEDUP_KINDS

# References in messages: @url:text:address@, @section:identifier:text@ and others like it.
_URL = re.compile(rb"@url:([^@]*?):([a-z]+://[^@]*)@")
_REFERENCE = re.compile(rb"@(?:section|metric|source:[^@:]*):[^@:]*:([^@]*)@")


@frozen
class RuleMessage:
    """One message of a rule.

    Attributes:
        rule: Identifier of the rule.
        section: Identifier of its section.
        kind: A number of `MESSAGE_KINDS`.
        title: Title; None without one.
        text: The message, with references as text.
        speedup_kind: A number of `SPEEDUP_KINDS`; None without a speedup.
        speedup_percent: Estimated speedup; None without one.
    """

    rule: bytes
    section: bytes | None
    kind: int
    title: bytes | None
    text: bytes
    speedup_kind: int | None
    speedup_percent: float | None


def messages_of(rule: Message) -> list[RuleMessage]:
    """Return what a rule says; nothing if it has nothing to say.

    Raises:
        WireError: It is damaged.
    """
    found = []
    for body in rule.messages(3):
        for item in body.messages(1):
            if 1 not in item:
                continue
            message, speedup = item.message(1), item.message(10)
            kind, speedup_kind = message.number(2), speedup.number(1)
            found.append(
                RuleMessage(
                    rule.raw(1) or b"",
                    rule.raw(4),
                    kind if kind in MESSAGE_KINDS else 0,
                    message.raw(4),
                    plain(message.raw(1) or b""),
                    None
                    if 10 not in item
                    else speedup_kind
                    if speedup_kind in SPEEDUP_KINDS
                    else 0,
                    speedup.decimal(2),
                )
            )
    return found


def plain(text: bytes) -> bytes:
    """Return a message without markup: the text of references, and addresses in brackets."""
    return _REFERENCE.sub(rb"\1", _URL.sub(rb"\1 (\2)", text))
