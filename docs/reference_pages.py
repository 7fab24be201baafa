"""Pages of the reference that docs/generate.py writes: rules, the interface of Python, JSON."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import warpline
import warpline.torch
from warpline import plugins
from warpline.capture.in_process.kernels import Kernels, Options
from warpline.capture.in_process.profile import Profile
from warpline.derived.kernel_limits.rules import KERNEL_RULES, KernelRule
from warpline.registry import Registry
from warpline.result import RULES, Rule

ROOT = Path(__file__).parents[1]
Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]

RULES_INTRODUCTION = (
    "What each rule finds, why that matters, what to do, and what its limits are, as"
    " `warpline explain RULE` prints it. What the rules were validated on, and how right their"
    " savings were: [Findings](findings.md)."
)

PYTHON_INTRODUCTION = (
    "Names that `import warpline` gives. A recording is a path, a list of paths (such as one per"
    " rank), or a trace that `warpline.open` has returned: opened once, it serves several calls."
    " Times are int64 ns, sizes are bytes and shares are ratios in [0, 1], where nothing else is"
    " said. Errors are subclasses of `warpline.WarplineError`, with a `hint` on what to do."
)

ERRORS = (
    "Each has a `message`, which names the problem, the place and the value, and a `hint`, the next"
    " action, or None. The exit status is that of the command line."
)

TORCH = (
    "`import warpline.torch`; [PyTorch programs](pytorch.md) shows their use, and that of the names"
    " which need PyTorch or a library of it: {others}."
)

JSON_INTRODUCTION = (
    "What commands write with `--format json`. Keys keep their meaning within a `schema_version`;"
    " new ones may come, so ignore those that are unknown. `[]` stands for each item of a list,"
    " `*` for any key."
)

_FUNCTIONS = {
    "Read recordings": ("open", "select", "merge", "query"),
    "Analyze": ("analyze", "summary", "stats", "memory", "flame", "stack_choice", "graphcheck"),
    "Compare": ("compare", "compare_kernels"),
    "Write": ("report", "timeline", "export"),
    "Record within a program": ("profile", "kernels"),
    "Annotate": ("annotate", "range_push", "range_pop", "start_range", "end_range", "mark"),
}
_CLASSES = ("Trace", "Result", "Diagnosis", "Finding", "Comparison")
# What a callable object stands for, and what belongs to it.
_STANDS_FOR: Mapping[str, tuple[type, ...]] = {"profile": (Profile,), "kernels": (Kernels, Options)}
_TORCH = ("benchmark", "graphcheck", "accelerate_profile")
_PART = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")
_ITEM = re.compile(r"^    (?:(\*{0,2}[\w.]+): )?(.*)$")
_HEADINGS = {"Args": "Arguments"}


def rules_page(note: str, prose: Callable[[str], str]) -> str:
    """Return the page on rules.

    Args:
        note: The first line of a generated page.
        prose: Makes Markdown of a docstring with headings.
    """
    plugins.load("analyses")
    plugins.load("kernel-rules")
    parts = [note, "# Rules", RULES_INTRODUCTION]
    registries: dict[str, Registry[Any]] = {"analyze": RULES, "kernels": KERNEL_RULES}
    for command, registry in registries.items():
        lines = (f"- [{item.name}](#{item.name}): {item.title}" for item in registry)
        parts += [f"Of `warpline {command}`:", "\n".join(lines)]
    for command, registry in registries.items():
        aliases = registry.aliases()
        parts += [part for item in registry for part in _rule(item, command, aliases, prose)]
    return "\n\n".join(parts) + "\n"


def _rule(
    item: Rule | KernelRule, command: str, aliases: Mapping[str, str], prose: Callable[[str], str]
) -> Iterator[str]:
    former = [f"`{alias}`" for alias, name in aliases.items() if name == item.name]
    said = f" Aliases: {', '.join(former)}." if former else ""
    yield f"## {item.name}"
    yield f"{item.title} (rule of `warpline {command}`).{said}"
    yield prose(item.doc)


def python_page(note: str) -> str:
    """Return the page on what is public in Python."""
    parts = [note, "# Python", PYTHON_INTRODUCTION]
    for heading, names in _FUNCTIONS.items():
        parts.append(f"## {heading}")
        for name in names:
            parts += _function(f"warpline.{name}", getattr(warpline, name), name)
    parts.append("## What calls return")
    for name in _CLASSES:
        parts += _class(getattr(warpline, name), f"warpline.{name}")
    parts += ["## Errors", ERRORS, _errors()]
    others = (f"`{name}`" for name in warpline.torch.__all__ if name not in _TORCH)
    parts += ["## warpline.torch", TORCH.format(others=", ".join(others))]
    for name in _TORCH:
        parts += _function(f"warpline.torch.{name}", getattr(warpline.torch, name), "")
    return "\n\n".join(parts) + "\n"


def _function(title: str, function: Any, name: str) -> Iterator[str]:
    yield f"### {title}"
    yield _signature(title, function)
    yield from _documentation(inspect.getdoc(function) or "")
    for item in _STANDS_FOR.get(name, ()):
        yield f"**{item.__name__}**"
        yield from _documentation(inspect.getdoc(item) or "")
        yield from _members(item)


def _class(item: type, title: str) -> Iterator[str]:
    yield f"### {title}"
    yield from _documentation(inspect.getdoc(item) or "")
    yield from _members(item)


def _members(item: type) -> Iterator[str]:
    """Yield the documented methods and properties of a class, those of its bases, too."""
    fields = {field.name for field in dataclasses.fields(item)} if _is_dataclass(item) else set()
    for name, member in inspect.getmembers_static(item):
        if name.startswith("_") or name in fields:
            continue
        function = member.fget if isinstance(member, property) else member
        text = inspect.getdoc(function) or ""
        if not inspect.isfunction(function) or not text:
            continue
        if isinstance(member, property):
            yield f"`{item.__name__}.{name}`"
        else:
            yield _signature(f"{item.__name__}.{name}", function)
        yield from _documentation(text)


def _is_dataclass(item: type) -> bool:
    return dataclasses.is_dataclass(item)


def _signature(title: str, function: Any) -> str:
    """Return a call with types and defaults, as code."""
    found = inspect.signature(function)
    items = [each for each in found.parameters.values() if each.name != "self"]
    words: list[str] = []
    for each in items:
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(each.kind.name, "")
        kind = "" if each.annotation is each.empty else f": {_type(each.annotation)}"
        default = "" if each.default is each.empty else f" = {each.default!r}"
        if each.kind is each.KEYWORD_ONLY and "*" not in words:
            words += [] if any(word.startswith("*") for word in words) else ["*"]
        words.append(f"{stars}{each.name}{kind}{default}")
    gives = (
        "" if found.return_annotation is found.empty else f" -> {_type(found.return_annotation)}"
    )
    line = f"{title}({', '.join(words)}){gives}"
    if len(line) > 90:
        line = f"{title}(\n" + "".join(f"    {word},\n" for word in words) + f"){gives}"
    return f"```python\n{line}\n```"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _documentation(docstring: str) -> Iterator[str]:
    """Yield a docstring in Markdown: its text, then its parts as lists."""
    lines = docstring.splitlines()
    starts = [number for number, line in enumerate(lines) if _PART.match(line)]
    text = "\n".join(lines[: starts[0] if starts else None]).strip()
    yield _code(text)
    for start, end in itertools.pairwise([*starts, len(lines)]):
        name = lines[start].removesuffix(":")
        yield f"{_HEADINGS.get(name, name)}:"
        yield _list(lines[start + 1 : end])


def _list(lines: Iterable[str]) -> str:
    items: list[str] = []
    for line in lines:
        found = _ITEM.match(line)
        if not line.strip():
            continue
        if found is None or line.startswith("        ") or (items and found[1] is None):
            items[-1] += f" {line.strip()}"
        else:
            items.append((f"`{found[1]}`: " if found[1] else "") + found[2])
    return "\n".join(f"- {_code(item)}" for item in items)


def _code(text: str) -> str:
    """Return text with code as in Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _errors() -> str:
    """Return the tree of public errors as a list."""
    lines = []
    for item in _tree(warpline.WarplineError):
        depth = len(item.__mro__) - len(warpline.WarplineError.__mro__)
        text = (inspect.getdoc(item) or "").partition("\n\n")[0].replace("\n", " ")
        status = f" Exit status {item.exit_code}." if "exit_code" in vars(item) else ""
        lines.append(f"{'  ' * depth}- `{item.__name__}`: {text}{status}")
    return "\n".join(lines)


def _tree(item: type[warpline.WarplineError]) -> Iterator[type[warpline.WarplineError]]:
    """Yield an error and the public ones below it."""
    yield item
    for each in item.__subclasses__():
        if each.__name__ in warpline.__all__:
            yield from _tree(each)


def json_page(note: str, table_of: Table) -> str:
    """Return the page on the documents in JSON, from their schemas.

    Args:
        note: The first line of a generated page.
        table_of: Makes a table of headers and rows.
    """
    parts = [note, "# JSON", JSON_INTRODUCTION]
    schemas = {path: _loaded(path) for path in sorted((ROOT / "docs").glob("*.schema.json"))}
    parts.append("\n".join(f"- [{each['title']}](#{_anchor(each)})" for each in schemas.values()))
    for path, schema in schemas.items():
        parts += [f"## {schema['title']}", f"Schema: [{path.name}]({path.name})."]
        parts += [schema["description"]] if "description" in schema else []
        rows = _keys(schema, schema.get("$defs", {}), "", ())
        parts.append(table_of(("key", "type", "meaning"), rows))
    return "\n\n".join(parts) + "\n"


def _loaded(path: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def _anchor(schema: Mapping[str, Any]) -> str:
    return re.sub(r"[^\w\- ]", "", schema["title"].lower()).replace(" ", "-")


def _keys(
    node: Mapping[str, Any], definitions: Mapping[str, Any], above: str, within: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """Yield path, type and meaning of each key below a node; definitions once on a path."""
    for name, child, required in _children(node):
        path = f"{above}{name}"
        target = child.get("$ref", "").rpartition("/")[2]
        whole = {**definitions.get(target, {}), **child}
        kind = _kind(whole)
        may_lack = "" if required or name == "[]" else ", optional"
        yield f"`{path}`", kind + may_lack, whole.get("description", "")
        if target not in within:
            separator = "." if "properties" in whole or "additionalProperties" in whole else ""
            passed = (*within, target) if target else within
            yield from _keys(whole, definitions, path + separator, passed)


def _children(node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    required = node.get("required", [])
    for name, child in node.get("properties", {}).items():
        yield name, child, name in required
    if isinstance(node.get("additionalProperties"), dict):
        yield "*", node["additionalProperties"], True
    if isinstance(node.get("items"), dict):
        yield "[]", node["items"], True
    for each in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _children(each)


def _kind(node: Mapping[str, Any]) -> str:
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if "enum" in node:
        return " or ".join(f"`{json.dumps(value)}`" for value in node["enum"])
    kinds = node.get("type", "")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)
