"""Redaction of a command line: keep the program, the names of flags, and harmless values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from warpline.lazy import lazy_pattern
from warpline.redaction import flags, programs, values
from warpline.redaction.environment import redact_assignment
from warpline.redaction.known_secrets import LONGEST, MASK, holds_known_secret
from warpline.redaction.names import is_bare_name, is_flag_name, is_module_name
from warpline.redaction.programs import LAUNCHERS, MODULES, SHELLS, Launcher
from warpline.redaction.project import Project

_ASSIGNMENT = lazy_pattern(
    r"(?P<sign>\+{0,2})(?P<name>[A-Za-z][\w./-]*)=(?P<value>.*)", re.ASCII | re.DOTALL
)
_NEGATIVE = lazy_pattern(r"-[0-9.].*", re.ASCII | re.DOTALL)
_SHOWN_PLAIN = lazy_pattern(r"[\w@%+=:,./*~-]+", re.ASCII)
_ORGANISATION = "/"


def redact_command(words: Sequence[str], project: Project | None = None) -> list[str]:
    """Return a command line with ``***`` for every word not known to be harmless.

    Args:
        words: The program and its arguments.
        project: The directory it was started in; without it, paths are judged only by their form.
    """
    return _Walk(words, project or Project()).run()


def join_command(words: Sequence[str]) -> str:
    """Return a command line as one string, quoted for a shell except for the masks."""
    return " ".join(
        word if MASK in word and _SHOWN_PLAIN.fullmatch(word) else shlex.quote(word)
        for word in words
    )


def run_as_typed(command: str) -> str:
    """Return a command line of `join_command` with ``***`` quoted against shell expansion."""
    if MASK not in command:
        return command
    try:
        return shlex.join(shlex.split(command))
    except ValueError:
        return command


class _Walk:
    """Walks through the words and tracks which program they belong to.

    Args:
        words: The program and its arguments.
        project: The directory it was started in.
    """

    def __init__(self, words: Sequence[str], project: Project) -> None:
        self._left = list(reversed(words))
        self._project = project
        self._shown: list[str] = []
        self._take = self._first  # how to handle the next word that is not a flag
        self._launcher: Launcher | None = None
        self._is_python = self._is_shell = False

    def run(self) -> list[str]:
        """Return the redacted words."""
        while self._left:
            word = self._left.pop()
            if self._take == self._first or not word.startswith("-") or _NEGATIVE.fullmatch(word):
                self._take(word)
            elif word in {"-", "--"}:
                self._shown.append(word)
            elif word.startswith("--"):
                self._long_flag(word)
            else:
                self._short_flag(word)
        return self._shown

    def _become(
        self, *, launcher: Launcher | None = None, python: bool = False, shell: bool = False
    ) -> None:
        """Continue with the words of another program."""
        self._launcher, self._is_python, self._is_shell = launcher, python, shell
        self._take = self._script if python or shell else self._argument

    # --- Words other than flags -------------------------------------------------------------------

    def _first(self, word: str) -> None:
        """Handle the first word: the program, or an assignment before it."""
        if not self._assign(word):
            self._program(word, self._project.program(word))

    def _program(self, word: str, shown: str | None) -> None:
        name = word.rpartition("/")[2]
        self._shown.append(shown or MASK)
        self._become(
            launcher=LAUNCHERS.get(name),
            python=programs.PYTHON.fullmatch(name) is not None,
            shell=name in SHELLS,
        )

    def _script(self, word: str) -> None:
        """Handle the script of an interpreter, which may itself be a launcher."""
        name = word.rpartition("/")[2]
        if programs.is_program(name):
            self._program(word, name)
            return
        self._shown.append(self._project.script(word) or MASK)
        self._become()

    def _argument(self, word: str) -> None:
        """Handle a word that is neither a flag nor a flag's value."""
        is_launching = self._launcher is not None
        if self._launcher is not None and word in self._launcher.subcommands:
            self._shown.append(word)
        elif is_launching and programs.is_program(word.rpartition("/")[2]):
            self._program(word, word.rpartition("/")[2])
        elif is_launching and self._project.script(word):
            self._script(word)
        elif not self._assign(word):
            self._shown.append(self._positional(word))

    def _positional(self, word: str) -> str:
        if word in programs.ACTIONS:
            return word
        if _ORGANISATION in word and values.is_known_model(word) and "-" in word:
            return word
        if word.startswith("~") and is_bare_name(word[1:]):  # Hydra: leave this out
            return word
        return self._existing(word)

    def _existing(self, word: str) -> str:
        """Return the path of an existing script or configuration; mask anything else."""
        shown = self._project.config(word) if self._project.has_config(word) else None
        return shown or MASK

    def _assign(self, word: str) -> bool:
        """Handle ``NAME=VALUE``; return whether the word is one."""
        shown = self._assignment(word)
        if shown is not None:
            self._shown.append(shown)
        return shown is not None

    def _assignment(self, word: str) -> str | None:
        """Return ``NAME=VALUE`` redacted; None if the word is not an assignment."""
        found = _ASSIGNMENT.fullmatch(word)
        if not found or not found["value"].strip("=") or not is_bare_name(found["name"]):
            return None
        shown = self._value(found["name"], found["value"])
        if shown == MASK and not found["sign"]:
            shown = redact_assignment(found["name"], found["value"])
        return f"{found['sign']}{found['name']}={shown}"

    # --- Flags ------------------------------------------------------------------------------------

    def _long_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        is_plain = is_flag_name(name[2:])
        shown = name if is_plain else f"--{MASK}"
        if equals:
            self._shown.append(f"{shown}={self._value(name if is_plain else '', value)}")
            return
        self._shown.append(shown)
        self._next_value(name if is_plain else "")

    def _short_flag(self, word: str) -> None:
        if self._is_python and self._python_flag(word):
            return
        if self._is_shell and programs.SHELL_SWITCHES.fullmatch(word):
            self._shown.append(word)
            if word.endswith("c"):
                self._text_of_program()
            return
        name, equals, value = word.partition("=")
        numbers = self._launcher.numbers if self._launcher else ()
        if word[:2] in numbers and word[2:].isdecimal() and values.is_number(word[2:]):
            self._shown.append(word)
        elif not self._is_short_name(name):
            letter = word[1] if word[1].isascii() and word[1].isalpha() else ""
            self._shown.append(f"-{letter}{MASK}")
            self._next_value("")
        elif equals:
            self._shown.append(f"{name}={self._value(name, value)}")
        else:
            self._shown.append(name)
            self._next_value(name)

    def _is_short_name(self, name: str) -> bool:
        if len(name) == 2:
            return name[1].isascii() and name[1].isalpha()
        return name in programs.SHORT_FLAGS or flags.is_listed(name[1:])

    def _python_flag(self, word: str) -> bool:
        """Handle a short flag of Python; return whether it is one."""
        letters = word[1:].rstrip("=")
        if word[1] in "cmXW":
            self._shown.append(word[:2])
            rest = word[2:] or (self._left.pop() if self._left else None)
            if rest is not None:
                self._python_value(word[1], rest)
        elif set(letters) <= programs.PYTHON_SWITCHES and len(letters) <= 6:
            self._shown.append(word)
        elif letters.endswith(("c", "m")) and set(letters[:-1]) <= programs.PYTHON_SWITCHES:
            self._shown.append(word)
            if self._left:
                self._python_value(letters[-1], self._left.pop())
        else:
            return False
        return True

    def _python_value(self, letter: str, value: str) -> None:
        if letter == "m":
            self._shown.append(value if value in MODULES or is_module_name(value) else MASK)
            self._become(launcher=MODULES.get(value))
        elif letter == "c":
            self._left.append(value)
            self._text_of_program()
        else:
            self._shown.append(value if value in programs.PYTHON_WORDS else MASK)

    def _text_of_program(self) -> None:
        """Handle the program text after ``-c`` of a shell or Python."""
        if self._left:
            self._left.pop()
            self._shown.append(MASK)
        self._become()

    # --- Values of flags --------------------------------------------------------------------------

    def _next_value(self, name: str) -> None:
        """Handle the value of a flag, if the next word may be one."""
        if not self._left or self._starts_program(name, self._left[-1]):
            return
        word = self._left[-1]
        if word.startswith("-") and not _NEGATIVE.fullmatch(word):
            return
        if self._launcher is not None and name in self._launcher.modules:
            self._python_value("m", self._left.pop())
            return
        shown = self._value(name, self._left.pop())
        # mpirun -x NCCL_DEBUG=INFO: keep the whole setting or none of it.
        is_kept = shown == MASK and self._assignment(word) == word
        self._shown.append(word if is_kept else shown)
        while (
            flags.normal_name(name) in flags.MULTIPLE
            and self._left
            and values.is_number(self._left[-1])
        ):
            self._shown.append(self._left.pop())

    def _starts_program(self, name: str, word: str) -> bool:
        """Return whether the word after a flag is not its value but the program to start."""
        is_launching = self._launcher is not None or self._is_python or self._is_shell
        if not is_launching or (self._launcher is not None and name in self._launcher.values):
            return False
        if flags.takes_path(name):
            return False
        return programs.is_program(word.rpartition("/")[2]) or bool(self._project.script(word))

    def _value(self, name: str, value: str) -> str:
        """Return the redacted value of a flag; without a name, it is always masked."""
        if len(value) > LONGEST or holds_known_secret(value):
            return MASK
        is_count = self._launcher is not None and name in self._launcher.numbers
        if (is_count or flags.takes_number(name)) and values.is_number(value):
            return value
        if flags.takes_word(name) and values.is_known_word(value):
            return value
        if flags.takes_model(name) and values.is_known_model(value):
            return value
        if flags.takes_path(name):
            return self._project.config(value) or MASK
        return self._existing(value)
