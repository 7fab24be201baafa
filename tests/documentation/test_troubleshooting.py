"""The page for troubleshooting has the error texts of the code, and the important ones."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from warpline.capture.machine.obstacles import _OF_STATUS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "warpline"
MACHINE = SOURCES / "capture" / "machine"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
# All their messages are on the page.
ERRORS = {
    "InstallationError",
    "AgentMissingError",
    "TargetFailedError",
    "CounterError",
    "HostError",
}
_LEAST = 6  # letters that a message must have beside its placeholders
_CELL = re.compile(r"^\| (`.*?`) \| .* \| .* \|$", re.MULTILINE)


def template(node: ast.expr) -> str | None:
    """Return a text with … in place of what is put into it; None if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("{}", "…")
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or "…" for part in node.values)
    return None


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def code() -> str:
    """Return the code, with … for what is put into texts, and the parts of texts joined.

    This finds texts as they are written, without parsing all files, which takes seconds.
    """
    python = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    native = (ROOT / "native").glob("*/src/**/*.cpp")
    text = "\n".join([python, *(path.read_text(encoding="utf-8") for path in native)])
    text = re.sub(r'"\s*\n\s*f?"', "", text)
    for _ in range(2):  # texts within texts
        text = re.sub(r"\{[^{}\n]*\}", "…", text)
    return text


def first_arguments(path: Path, *names: str) -> Iterator[ast.expr]:
    """Yield what functions and classes of some names are called with first."""
    if not any(f"{name}(" in path.read_text(encoding="utf-8") for name in names):
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            if (name.id if isinstance(name, ast.Name) else name) in names:
                yield node.args[0]


def letters(text: str) -> int:
    return len(re.sub(r"\W", "", text))


def shown() -> set[str]:
    """Return the messages on the page."""
    return {text for cell in _CELL.findall(PAGE) for text in re.findall(r"`(.+?)`", cell)}


def checks() -> set[str]:
    """Return the names of the checks of `warpline doctor` that may fail."""
    path = MACHINE / "checks.py"
    constants = {
        target.id: template(node.value)
        for file in (path, MACHINE / "agent.py")
        for node in tree(file).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    names: set[str] = set()
    for node in first_arguments(path, "bad"):
        if isinstance(node, ast.Name) and node.id == "name":  # each of a loop's
            names |= {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}
        else:
            found = constants[node.id] if isinstance(node, ast.Name) else template(node)
            assert found
            names.add(found)
    return names


def test_messages_on_the_page_are_in_the_code() -> None:
    known = code()
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert [line for line in lines if not _CELL.fullmatch(line)] == []
    prefixes = tuple(f"{name}: " for name in checks() | {"native core", "agent", "numpy"})
    unknown = []
    for text in shown():
        prefix = next((one for one in prefixes if text.startswith(one)), "")
        rest = text.removeprefix(prefix)
        if rest not in known or (letters(rest) < _LEAST and not prefix):
            unknown.append(text)
    assert unknown == []
    assert len(shown()) > 150


def test_every_check_of_doctor_is_on_the_page() -> None:
    listed = {text.partition(": ")[0] for text in shown()}
    assert len(checks()) >= 10
    assert checks() <= listed


def test_important_errors_are_on_the_page() -> None:
    needed = {cause for cause, _ in _OF_STATUS.values()}
    needed |= {
        text
        for path in SOURCES.rglob("*.py")
        for node in first_arguments(path, *ERRORS)
        if (text := template(node)) and letters(text) >= _LEAST
    }
    for path in (
        MACHINE / "obstacles.py",
        SOURCES / "capture" / "attaching" / "refusals.py",
        SOURCES / "capture" / "launcher" / "reasons.py",
        SOURCES / "trace" / "reading.py",
    ):
        calls = ("Obstacle", "Reason", "InputError", "UnknownFormatError")
        found = [text for node in first_arguments(path, *calls) if (text := template(node))]
        needed |= {text for text in found if letters(text) >= _LEAST}
    assert len(needed) > 80
    on_page = shown()
    assert {text for text in needed if not any(one in text for one in on_page)} == set()


def test_a_wrong_message_would_be_found() -> None:
    assert "programs are recorded on Linux only" in code()
    assert "programs are recorded on Linus only" not in code()
    assert "… requires Warpline; this is warpline-agent, which only records" in code()
