"""GEMM calls: their sizes and types, from the arguments in `library_call`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.texts import number_texts
from warpline.hardware import Peaks
from warpline.ops.arrays import I64
from warpline.trace import Trace

_TYPES = {
    "R_64F": "FP64",
    "R_32F": "FP32",
    "R_16F": "FP16",
    "R_16BF": "BF16",
    "R_8F_E4M3": "FP8 E4M3",
    "R_8F_E5M2": "FP8 E5M2",
    "R_8I": "INT8",
    "R_32I": "INT32",
    "R_4F_E2M1": "FP4",
    "C_32F": "complex FP32",
    "C_64F": "complex FP64",
}
_HALF = {"FP16", "BF16"}
_FP8 = {"FP8 E4M3", "FP8 E5M2"}
_SINGLE = {"FP32", "complex FP32"}


class Gemm(NamedTuple):
    """A GEMM C = A B: C has m rows and n columns, A has k columns; each `batch` times.

    Attributes:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A, rows of B.
        batch: Number of such products in a call.
        transposed: N, T or C (conjugate) for A and for B, such as ``TN``.
        types: Types of A and B: one if they are the same.
        output: Type of C.
        compute: Type in which products are computed.
    """

    m: int
    n: int
    k: int
    batch: int
    transposed: str
    types: str
    output: str
    compute: str

    @property
    def flop(self) -> int:
        """Floating-point operations of a call: 2 m n k, four times as many if complex."""
        return 2 * self.m * self.n * self.k * self.batch * (4 if "complex" in self.types else 1)

    def peak(self, peaks: Peaks) -> int | None:
        """Return the peak rate of a GPU for it in FLOP/s; None if that is not known.

        FP64 and integers have none: Tensor Cores compute them at rates that data sheets list
        apart.
        """
        if self.types in _FP8:
            return peaks.fp8_flop_per_s
        if self.types in _HALF or self.compute in _HALF:
            return peaks.half_flop_per_s
        if self.types in _SINGLE:
            return peaks.tf32_flop_per_s if self.compute == "TF32" else peaks.fp32_flop_per_s
        return None


class GemmCalls(NamedTuple):
    """The calls with the arguments of a GEMM.

    Attributes:
        row: Shape (n,), int64, their rows of `library_call`, ascending.
        gemm: Shape (n,), int64, the place of each one's GEMM in `gemms`.
        gemms: The distinct GEMMs.
    """

    row: I64
    gemm: I64
    gemms: tuple[Gemm, ...]


@derived
def gemm_calls(trace: Trace) -> GemmCalls:
    """Return the calls of `library_call` whose arguments are those of a GEMM."""
    column = trace.columns("library_call", "arguments_id")["arguments_id"]
    rows = np.flatnonzero(column.is_valid())
    codes, distinct = number_texts(column.values[rows], len(trace.strings))
    numbers: dict[Gemm, int] = {}
    of_text = np.full(len(distinct), -1)
    for place, text in enumerate(trace.strings.texts(distinct.tolist())):
        found = parse(text)
        if found is not None:
            of_text[place] = numbers.setdefault(found, len(numbers))
    gemm = of_text[codes]
    known = gemm >= 0
    return GemmCalls(rows[known], gemm[known], tuple(numbers))


def parse(text: str) -> Gemm | None:
    """Return the GEMM that arguments describe, a JSON object; None if they are no such."""
    try:
        given = json.loads(text)
        m, n, k = (int(given[key]) for key in ("m", "n", "k"))
        batch = int(given.get("batch_count", 1))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    if min(m, n, k, batch) < 0:
        return None
    a, b, c = (_type(given, f"type_{operand}") for operand in "abc")
    return Gemm(
        m,
        n,
        k,
        batch,
        "".join(str(given.get(key, "N"))[:1] for key in ("transa", "transb")),
        a if a == b else f"{a} x {b}",
        c,
        _compute(given, a),
    )


def _type(given: Mapping[str, Any], key: str) -> str:
    text = str(given.get(key, ""))
    return _TYPES.get(text, text)


def _compute(given: Mapping[str, Any], operand: str) -> str:
    """Return the type that products are computed in.

    cuBLAS calls it by the type of the sums: products of BF16 with sums in FP32 are "32F".
    """
    text = str(given.get("compute", ""))
    if operand in _SINGLE:
        if "FAST_TF32" in text or (given.get("math") == "TF32" and text in {"32F", "R_32F"}):
            return "TF32"
        for name, fast in (("FP16", "FAST_16F"), ("BF16", "FAST_16BF")):
            if text.endswith(fast):
                return name
    return operand if operand in {*_HALF, *_FP8} else _TYPES.get(f"R_{text}", text) or operand
