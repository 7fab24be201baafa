"""The modules that kernels of compiled code are from, by the source that Inductor compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.compiled.matches import compiled_rows
from warpline.derived.compiled.paths import full_path
from warpline.derived.modules.calls import called_modules
from warpline.derived.modules.places import places_of_operations
from warpline.ops.arrays import I32, I64
from warpline.ops.group import factorize_rows
from warpline.trace import Trace


class CompiledWork(NamedTuple):
    """Operations of compiled code whose module is known.

    Attributes:
        operation: Shape (n,), int64, places in `operations`, ascending.
        path: Shape (n,), int32, places in `paths`.
        paths: The names of modules.
        around: The module that was running at the first launch of each, None outside modules.
    """

    operation: I64
    path: I32
    paths: tuple[str, ...]
    around: tuple[str | None, ...]


@derived
def compiled_work(trace: Trace) -> CompiledWork:
    """Return the operations of compiled code whose module is known.

    Compiled code names modules below the code that was compiled, which is that of the module at
    the launch; in the backward pass, of the one that made the backward function.
    """
    if not trace.has("compiled_kernel") or not trace.row_count("compiled_kernel"):
        return CompiledWork(np.zeros(0, np.int64), np.zeros(0, np.int32), (), ())
    row = compiled_rows(trace)
    column = trace.columns("compiled_kernel", "module_id")["module_id"]
    operation = np.flatnonzero(row.found & column.is_valid()[row.row])
    around = places_of_operations(trace).module[operation]
    text = column.values[row.row[operation]]
    groups = factorize_rows(around, text)
    names = (*called_modules(trace).names, None)
    pairs = zip(around[groups.first].tolist(), text[groups.first].tolist(), strict=True)
    classes = class_of_names(trace)
    paths = [
        full_path(names[module], classes.get(names[module] or ""), trace.strings.text(path))
        for module, path in pairs
    ]
    distinct = {path: place for place, path in enumerate(dict.fromkeys(paths))}
    place = np.array([distinct[path] for path in paths], np.int32)
    running: dict[str, str | None] = {}
    for path, module in zip(paths, around[groups.first].tolist(), strict=True):
        running.setdefault(path, names[module])
    return CompiledWork(operation, place[groups.codes], tuple(distinct), tuple(running.values()))


@derived
def class_of_names(trace: Trace) -> dict[str, str]:
    """Return the class of each module whose class was recorded, by its name."""
    if not trace.has("module"):
        return {}
    columns = trace.columns("module", "name_id", "class_name_id")
    names, classes = (trace.strings.texts(column.values.tolist()) for column in columns.values())
    return dict(zip(reversed(names), reversed(classes), strict=True))
