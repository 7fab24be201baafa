"""The code of kernels as CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from warpline.render.kernel_pages import quoted
from warpline.result.kernel_code import (
    CodeFile,
    CodeInstruction,
    CodeLine,
    KernelCode,
    SourcePlace,
    Value,
)

_SASS_HEADINGS = ("#", "Offset", "Encoding", "File", "Line", "SASS")
_LINE_HEADINGS = ("File", "Line", "Source")


def write_sass_csv(codes: Iterable[KernelCode], out: TextIO) -> None:
    """Write the instructions of each kernel."""
    for code in codes:
        rows = (
            [str(number), f"{of.offset:#x}", of.encoding or "", *_place(code, of), of.sass or ""]
            for number, of in enumerate(code.instructions)
        )
        _write(code, _SASS_HEADINGS, rows, [of.values for of in code.instructions], out)


def write_lines_csv(codes: Iterable[KernelCode], out: TextIO, *, is_ptx: bool) -> None:
    """Write the lines of each kernel that have instructions, of source files or of PTX."""
    for code in codes:
        lines = [
            (file, line, line.values)
            for file in code.files
            for line in file.lines
            if line.values is not None and (file.kind == "PTX") == is_ptx
        ]
        rows = ([file.path, str(line.line), line.text or ""] for file, line, _ in lines)
        _write(code, _LINE_HEADINGS, rows, [values for *_, values in lines], out)


def _write(
    code: KernelCode,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    values: Sequence[Sequence[Value]],
    out: TextIO,
) -> None:
    out.write(quoted(["Kernel Name", code.name]) + "\n")
    out.write(quoted([*headings, *(of.label for of in code.metrics)]) + "\n")
    out.writelines(
        quoted([*row, *("" if value is None else str(value) for value in of)]) + "\n"
        for row, of in zip(rows, values, strict=True)
    )
    out.write("\n")


def _place(code: KernelCode, of: CodeInstruction) -> tuple[str, str]:
    if of.place is None:
        return "", ""
    return code.files[of.place.file].path, str(of.place.line)


def code_json(code: KernelCode) -> str:
    """Return the code of a kernel as JSON, without spaces: it has as many numbers as a table."""
    members: Mapping[str, object] = {
        "function": code.function,
        "name": code.name,
        "kernels": list(code.launches),
        "has_sass": any(of.sass is not None for of in code.instructions),
        "note": code.note,
        "too_few": code.is_too_few,
        "samples": code.samples,
        "metrics": [{"name": of.name, "label": of.label, "unit": of.unit} for of in code.metrics],
        "totals": code.totals,
        "instructions": [_instruction(of) for of in code.instructions],
        "files": [_file(of) for of in code.files],
    }
    return json.dumps(members, separators=(",", ":"))


def _instruction(of: CodeInstruction) -> Mapping[str, object]:
    return {
        "offset": of.offset,
        "sass": of.sass,
        "encoding": of.encoding,
        "file": of.place.file if of.place else None,
        "line": of.place.line if of.place else None,
        "inlined_at": _json_place(of.inlined_at),
        "library": of.library and {"path": of.library[0], "line": of.library[1]},
        "ptx_line": of.ptx_line,
        "values": of.values,
    }


def _file(of: CodeFile) -> Mapping[str, object]:
    return {"path": of.path, "kind": of.kind, "lines": [_line(line) for line in of.lines]}


def _line(of: CodeLine) -> Mapping[str, object]:
    return {
        "line": of.line,
        "text": of.text,
        "inlined_at": _json_place(of.inlined_at),
        "values": of.values,
    }


def _json_place(of: SourcePlace | None) -> Mapping[str, int] | None:
    return None if of is None else {"file": of.file, "line": of.line}
