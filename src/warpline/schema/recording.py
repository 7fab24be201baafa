"""The layout of the recording file: names and contents of its members.

Declared here and not in `trace`: the capture side writes recordings without numpy, and `trace`
imports numpy.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema.columns import DType
from warpline.schema.tables import SCHEMA_VERSION

FORMAT = "warpline"
RAW_FORMAT = "warpline-raw"  # written by finishing a raw recording
VERSION = (SCHEMA_VERSION, 0)
NPY_TYPES: Mapping[DType, str] = {
    DType.INT64: "<i8",
    DType.INT32: "<i4",
    DType.UINT16: "<u2",
    DType.FLOAT64: "<f8",
    DType.BOOL: "|b1",
}
BLOB, OFFSETS = "string/blob", "string/offsets"
MASK_ENDING = ".valid"
