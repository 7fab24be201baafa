"""Load readers, analyses, renderers and exporters, built in or from installed packages.

A built-in is a module of its package; importing it registers it. An extension is an entry point
in the group ``warpline.readers``, ``warpline.analyses``, ``warpline.renderers`` or
``warpline.exporters``. Its value names a module that registers itself on import.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from typing import TYPE_CHECKING

from warpline.lazy import lazy

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = lazy("importlib.metadata")

_GROUPS = {
    "readers": ("warpline.readers",),
    "analyses": (
        "warpline.analyses.tables",
        "warpline.analyses.overview",
        "warpline.analyses.ranges",
        "warpline.analyses.operators",
        "warpline.analyses.diagnosis",
        "warpline.analyses.checks",
        "warpline.analyses.findings",
    ),
    "renderers": ("warpline.render",),
    "exporters": ("warpline.exporters",),
}


@cache
def load(kind: str) -> None:
    """Import every module of a kind: "readers", "analyses", "renderers" or "exporters".

    An extension that cannot be loaded causes a RuntimeWarning, not an error.
    """
    for package_name in _GROUPS[kind]:
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package_name}.{module.name}")
    _load_extensions(f"warpline.{kind}")


def _load_extensions(group: str) -> None:
    for entry in metadata.entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - a defective extension must not stop Warpline
            owner = entry.dist.name if entry.dist else entry.value
            failure = f"extension {entry.name!r} of {owner} cannot be loaded: {error!r}"
            warnings.warn(failure, RuntimeWarning, stacklevel=3)
