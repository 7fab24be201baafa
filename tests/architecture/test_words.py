"""Words that users stumbled over stay out of screens, help, errors, documents and docstrings.

docs/terms.md has the terms that replaced them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

RETIRED = {
    # said plainly elsewhere
    r"\btold\b": "reported, shown, detected",
    r"\btells?\b": "shows, identifies",
    r"\bsay so\b": "report it",
    r"\banew\b": "again, re-created",
    r"\bchiefly\b": "mostly",
    r"\bdear(?:er|est)?\b": "adds overhead",
    r"\bhold(?:s|ing)? (?:the|a) (?:program|host|thread|launching thread)\b": "blocks",
    r"\bheld (?:up|the (?:program|host|thread))\b": "blocked",
    r"\bholds? .{1,30} up\b": "delays, blocks",
    r"\bbusy with code of\b": "busy time by library",
    r"\blast sign of life\b": "last event",
    r"\bexclude each other\b": "cannot be combined",
    r"\bhas no use for\b": "unexpected argument",
    r"\bstretch(?:es)? of time\b": "time range",
    r"\bso long after\b": "after SECONDS",
    r"\b(?:can't|cannot) tell\b": "unknown",
    r"\bas wholes\b": "at graph level",
    r"\bone after the other\b": "one at a time",
    r"\bbound by its launches\b": "launch-bound",
    r"\bstarved\b": "input-bound",
    r"\bnothing measurable\b": "no measurable savings",
    r"\bto be saved\b": "estimated saving",
    r"\bcall chains?\b": "backtrace",
    r"\belement-wise\b": "elementwise",
    r"\bwhat is waited for\b": "the awaited event",
    r"\bpauses? of the host\b": "CPU gap",
    r"\bcalls? of CUDA\b": "CUDA API call",
    r"\bdoes not know\b": "unknown",
    r"\bnot a recording that\b": "unsupported file format",
    r"\bthe words were wrong\b": "usage error",
    # spelling and form
    r"\banalys(?:e[dr]?\b|ing)": "analyze",
    r"\b(?:normal|recogn|synchron|initial|optim|summar)is(?!t|m)": "US spelling",
    r"\bcolour": "color",
    r"\d %(?![\w(])": "98.3%, without a space",
}
# Old ids that are still accepted, and where they are explained.
KEPT = (
    'aliases=("data-starved",)',
    "`data-starved` is now",
    "Aliases: `data-starved`",
    "data-starved is now",
    " tell: ",  # a parameter
    " told: ",  # a parameter
    "`told`",
    'check state "can\'t tell" is unknown',
    "(was `can't tell`)",
    "normalisation",
    "| starved |",  # a program that was measured
    '"colour"',  # keys of the report's data
    "`colour`",
)
FIRST_PARTY = ("src/warpline/**/*.py", "benchmarks/**/*.py", "docs/*.py")
DOCUMENTS = ("*.md", "docs/**/*.md", "viewer/*.md", "src/warpline/data/*.md", "benchmarks/**/*.md")
SOURCES = ("viewer/src/**/*.ts", "viewer/src/**/*.tsx")
NATIVE = ("native/*/src/**/*.cpp", "native/*/src/**/*.h")
IDENTIFIER = re.compile(r"[\w./:\"'`-]*")

# Of TypeScript: comments, string literals, and the text between two tags.
_WORDING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|(?<=>)[^<>{};=]+(?=<)""",
    re.DOTALL,
)
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# They begin where a word does, or at a digit: elsewhere none of them is tried.
_ANY = "|".join(f"({words})" for words in RETIRED)
_PATTERN = re.compile(rf"(?:\b|(?=\d %))(?:{_ANY})", re.IGNORECASE)


def texts_of_python(path: Path) -> Iterator[str]:
    """Yield the string constants of a module, docstrings included, and its comments."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield "" if IDENTIFIER.fullmatch(node.value) else node.value
    yield "\n".join(re.findall(r"(?:^|\s)#\s(.*)$", source, re.MULTILINE))


def texts(repository: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is read by people, by file."""
    for pattern in FIRST_PARTY:
        for path in sorted(repository.glob(pattern)):
            yield from ((path, text) for text in texts_of_python(path))
    for pattern in DOCUMENTS:
        for path in sorted(repository.glob(pattern)):
            yield path, path.read_text(encoding="utf-8")
    for pattern in NATIVE:  # messages only: users do not read its comments
        for path in sorted(repository.glob(pattern)):
            text = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
            yield path, "\n".join(_LITERAL.findall(text))
    for pattern in SOURCES:
        for path in sorted(repository.glob(pattern)):
            if ".test." in path.name:
                continue
            text = re.sub(r"\n\s*//", " ", path.read_text(encoding="utf-8"))
            yield path, "\n".join(t for t in _WORDING.findall(text) if not IDENTIFIER.fullmatch(t))


def found(repository: Path) -> Iterator[str]:
    """Yield a line for each retired word, with what to write instead."""
    better = list(RETIRED.values())
    for path, text in texts(repository):
        plain = re.sub(r"\s+", " ", text)
        for match in _PATTERN.finditer(plain):
            around = plain[max(0, match.start() - 40) : match.end() + 30]
            if not any(kept in around for kept in KEPT):
                name = path.relative_to(repository)
                yield f"{name}: …{around}… ({better[(match.lastindex or 1) - 1]})"


def test_no_retired_words(repository: Path) -> None:
    assert list(found(repository)) == []


def test_the_check_finds_them(tmp_path: Path) -> None:
    module = tmp_path / "src" / "warpline" / "a.py"
    module.parent.mkdir(parents=True)
    module.write_text('"""It holds the\n   program up."""\nx = f"{1} 12 %" "."\ny = 12 % 5\n')
    assert len(list(found(tmp_path))) == 2
