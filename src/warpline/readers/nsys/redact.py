"""Command lines without their secrets: recordings are mailed and attached to bug reports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

HIDDEN = "REDACTED"

_SECRET_NAME = re.compile(
    r"token|passw|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    r"|(^|[_-])auth($|[_-])|(^|[_-])pwd($|[_-])",
    re.IGNORECASE,
)
# Texts that are keys by their look: of code hosts, model hubs, clouds and chat services.
_SECRET_VALUE = re.compile(
    r"\b(?:sk-|hf_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA|nvapi-|wandb_v)[\w-]{8,}"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@:]*:[^/\s@]*(?=@)")
_NAMED = re.compile(r"(?P<name>-{0,2}[\w.-]+)(?P<sign>[=:])(?P<value>.+)", re.DOTALL)


def redacted_command(arguments: Sequence[str]) -> str:
    """Return a command line as a shell would take it, values that look secret hidden.

    Hidden are the value of ``--api-key=...``, ``TOKEN=...`` and the argument after
    ``--password``, logins in addresses, and texts that look like a well-known kind of key.
    """
    shown: list[str] = []
    is_next_hidden = False
    for argument in arguments:
        is_option = argument.startswith("-")
        shown.append(HIDDEN if is_next_hidden and not is_option else _redacted(argument))
        is_next_hidden = is_option and "=" not in argument and _is_secret_name(argument)
    return shlex.join(shown)


def _redacted(argument: str) -> str:
    named = _NAMED.fullmatch(argument)
    if named and _is_secret_name(named["name"]):
        return f"{named['name']}{named['sign']}{HIDDEN}"
    return _SECRET_VALUE.sub(HIDDEN, _URL_LOGIN.sub(HIDDEN, argument))


def _is_secret_name(name: str) -> bool:
    # "--max-tokens 512" and "--tokenizer gpt2" are no secrets.
    plain = re.sub(r"tokens|token(?:iz|is)\w*|token[_-](?:len|count|id|type)\w*", "", name.lower())
    return bool(_SECRET_NAME.search(plain))
