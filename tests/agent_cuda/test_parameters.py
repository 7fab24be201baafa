"""Our reading of the parameters of CUDA calls against NVIDIA's headers, where these are installed.

CUPTI hands a call's parameters over as a struct that its headers declare for each function.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "native" / "agent" / "src" / "cupti" / "parameters.cpp"
HEADERS = ("cuda_runtime_api", "cuda", "cudart_removed")
_STREAMS, _EVENTS = {"stream", "hStream"}, {"event", "hEvent"}
# The fields that each form reads: where they are, and what NVIDIA calls them.
FORMS: dict[str, dict[int, set[str]]] = {
    "kCurrentContext": {},
    "kGivenContext": {0: {"ctx"}},
    "kStream": {0: _STREAMS},
    "kStreamAndEvent": {0: _STREAMS, 8: _EVENTS},
    "kEventAndStream": {0: _EVENTS, 8: _STREAMS},
    "kEvent": {0: _EVENTS},
    "kEventOnly": {0: _EVENTS},
}
_SIZES = {"count", "ByteCount", "N"}
_BYTES = {"int": 4, "unsigned int": 4, "unsigned char": 1, "unsigned short": 2, "CUdevice": 4}

Struct = tuple[str, dict[int, tuple[str, int]]]  # function; name and bytes of fields by offset


def _folders() -> list[Path]:
    named = os.environ.get("WARPLINE_CUPTI_INCLUDE", "")
    folders = [Path(part) for part in named.split(os.pathsep) if part]
    folders += sorted(Path("/usr/local").glob("cuda-*/include"))
    return [path for path in folders if (path / "generated_cuda_meta.h").is_file()]


def _bytes_of(kind: str) -> int:
    if kind.endswith("*"):
        return 8
    if kind.endswith("_v1"):
        return 4
    return 4 if kind.startswith("enum ") else _BYTES.get(kind, 8)


def _structs(folder: Path) -> Iterator[Struct]:
    for header in HEADERS:
        path = folder / f"generated_{header}_meta.h"
        text = path.read_text() if path.is_file() else ""
        for name, body in re.findall(r"typedef struct (\w+)_params_st \{(.*?)\}", text, re.DOTALL):
            fields, at = {}, 0
            for line in filter(None, (part.strip() for part in body.split(";"))):
                kind, field = re.fullmatch(r"(.*?)(\w+)(?:\[\d+\])?", line, re.DOTALL).groups()  # type: ignore[union-attr]
                size = _bytes_of(kind.replace("const ", "").strip())
                at = -(-at // size) * size
                fields[at] = (field, size)
                at += size
            yield name, fields


def _forms() -> list[tuple[str, str]]:
    found = re.findall(r'\{"(\w+)", Concerns::(\w+)\}', SOURCE.read_text())
    assert len(found) == 11
    return found


def _names(array: str) -> set[str]:
    (body,) = re.findall(rf"{array}\[\] = \{{(.*?)\}};", SOURCE.read_text(), re.DOTALL)
    return set(re.findall(r'"(\w+)"', body))


def _plain(function: str) -> str:
    return re.sub(r"^(cuda|cu)", "", function)


_ANY: list[Path | None] = [*_folders()]


@pytest.fixture(params=_ANY or [None], ids=str)
def structs(request: pytest.FixtureRequest) -> list[Struct]:
    if request.param is None:
        pytest.skip("no headers of CUPTI")
    found = list(_structs(request.param))
    assert len(found) > 500
    return found


def test_streams_and_events_are_where_they_are_read(structs: list[Struct]) -> None:
    seen = set()
    for function, fields in structs:
        name = _plain(function)
        form = next((form for start, form in _forms() if name.startswith(start)), None)
        for at, names in FORMS.get(form or "", {}).items():
            assert fields[at] in {(field, 8) for field in names}, (function, fields)
            seen.add(form)
    assert {"kStream", "kStreamAndEvent", "kEventAndStream", "kEvent", "kEventOnly"} <= seen


def test_sizes_of_copies_and_fills_are_where_they_are_read(structs: list[Struct]) -> None:
    plain, second = _names("kPlain"), _names("kPlainSecond")
    seen = set()
    for function, fields in structs:
        base, _, version = _plain(function).partition("_")
        if base in plain | {"Memcpy", "MemcpyAsync"} or (
            base in second and version.startswith("v2")
        ):
            assert fields[16] in {(name, 8) for name in _SIZES}, (function, fields)
            seen.add(base)
        if base in {"Memcpy", "MemcpyAsync"} and function.startswith("cuda"):
            assert fields[24] == ("kind", 4)
        if base in {"MemcpyPeer", "MemcpyPeerAsync"}:
            assert fields[32] in {(name, 8) for name in _SIZES}, (function, fields)
            seen.add(base)
    assert seen == plain | second | {"Memcpy", "MemcpyAsync", "MemcpyPeer", "MemcpyPeerAsync"}


def test_calls_of_a_threads_own_stream_are_known_by_their_names(structs: list[Struct]) -> None:
    # Of a call that exists in two forms one has no such ending.
    functions = {function for function, _ in structs}
    own = {function for function in functions if "_ptsz" in function}
    assert {"cudaStreamSynchronize_ptsz_v7000", "cuEventRecord_ptsz"} <= own
