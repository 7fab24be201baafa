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

# How a part of a record becomes a column of the recording.
TYPES = {"text": DType.INT32, "label": DType.INT32, "flag": DType.BOOL, "f64": DType.FLOAT64}
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


def test_rows_are_those_of_the_schema(records: list[dict[str, Any]]) -> None:
    rows = [record for record in records if "table" in record]
    assert rows
    for record in rows:
        table = TABLES[record["table"]]
        found = {"process_id": DType.INT32, **dict.fromkeys(record["constants"], DType.INT32)}
        if record["row_of"] == "thread":
            found["thread_id"] = DType.INT32
        for part in re.split(r"[|]", "|".join([*record["words"], record.get("aux", "0")])):
            name, _, kind = part.strip().partition(":")
            column = f"{name}_id" if kind == "text" else name.removesuffix("?")
            found[column] = TYPES.get(kind, DType.INT64)
            if table.has(column):
                assert table.column(column).nullable == name.endswith("?")
        assert {column.name: column.dtype for column in table.columns}.items() <= found.items()
        assert table.order == ("time_ns", *record.get("order", ()))
