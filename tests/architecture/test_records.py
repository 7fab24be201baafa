"""The declarations of raw records, and what is generated from them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from agent_cuda import cuda_logs
from support import raw_logs

from warpline.schema import TABLES, DType

# What a function of conversions.h returns, and the kinds of parts that one is named after.
TYPES = {
    "Number": DType.INT64,
    "Real": DType.FLOAT64,
    "Label": DType.INT32,
    "Flag": DType.BOOL,
}
KINDS = {"text": DType.INT32, "label": DType.INT32, "flag": DType.BOOL, "f64": DType.FLOAT64}
OWNERS = {
    "process": {"process_id"},
    "thread": {"process_id", "thread_id"},
    "place": {"process_id", "device_id", "context_id", "stream_id"},
}
# The second decoders' names, where they are shorter.
SHORT = {"CudaName": "NAME", "CudaClock": "CLOCK"}


@pytest.fixture(scope="module")
def records(repository: Path) -> list[dict[str, Any]]:
    source = repository / "native" / "raw" / "records.toml"
    return list(tomllib.loads(source.read_text(encoding="utf-8"))["record"])


def test_generated_files_are_current(repository: Path) -> None:
    command = [sys.executable, str(repository / "native" / "raw" / "generate"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_numbers_are_those_of_the_second_decoder(records: list[dict[str, Any]]) -> None:
    for record in records:
        decoder = cuda_logs if record["number"] >= 64 else raw_logs
        name = SHORT.get(record["name"]) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", record["name"])
        assert getattr(decoder, name.upper()) == record["number"]


@pytest.fixture(scope="module")
def conversions(repository: Path) -> dict[str, DType]:
    """The functions that make a column, and its type."""
    header = repository / "native" / "core" / "src" / "raw" / "conversions.h"
    made = re.findall(r"^inline (\w+) (\w+)\(const SealedTables", header.read_text(), re.MULTILINE)
    return {name: TYPES[of] for of, name in made if of in TYPES}


def columns_of(
    record: dict[str, Any], table: dict[str, Any], conversions: dict[str, DType]
) -> dict[str, tuple[DType, bool]]:
    """Return the columns that are declared: their types, and whether zeros are null."""
    words = [*record["words"], record.get("aux", "0"), *table.get("joined", ())]
    words += [word for flag in record.get("optional", ()) for word in flag.get("words", ())]
    kinds = {}
    for part in re.split(r"[|]", "|".join(words)):
        name, _, kind = part.strip().partition(":")
        kinds[name.removesuffix("?")] = kind
    own = dict.fromkeys([*OWNERS[table["row_of"]], *table.get("constants", ())], DType.INT32)
    found = {name: (dtype, False) for name, dtype in own.items()}
    every = re.findall(r"(\w+\??)(?::\w+)?", " ".join(record["words"]))
    for text in table.get("columns", every):
        name, _, made = text.rpartition(" = ")
        function, is_call, _ = made.partition("(")
        part = function.removesuffix("?")
        if name == "":
            name = f"{part}_id" if kinds.get(part) == "text" else part
        dtype = conversions[function] if is_call else KINDS.get(kinds.get(part, ""), DType.INT64)
        found[name] = (dtype, function.endswith("?"))
    return found


def test_tables_are_those_of_the_schema(
    records: list[dict[str, Any]], conversions: dict[str, DType]
) -> None:
    declared = [(record, table) for record in records for table in record.get("table", ())]
    assert {"kernel", "memory_event", "graph_node"} <= {table["name"] for _, table in declared}
    for record, table in declared:
        spec = TABLES[table["name"]]
        found = columns_of(record, table, conversions)
        for column in spec.columns:
            if column.name not in found:  # records do not have it
                assert column.nullable, f"{spec.name}/{column.name}"
                continue
            dtype, is_nullable = found[column.name]
            assert column.dtype == dtype, f"{spec.name}/{column.name}"
            assert column.nullable or not is_nullable, f"{spec.name}/{column.name}"
        assert spec.order == tuple(table.get("order", ["time_ns"]))
