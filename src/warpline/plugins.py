"""Loads readers, analyses, renderers and exporters: built in, and of installed packages.

A built-in is a module in its folder; importing it registers it. An extension is an entry point
in one of the groups ``warpline.readers``, ``warpline.analyses``, ``warpline.renderers`` and
``warpline.exporters`` whose value names a module that registers itself when imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache

_GROUPS = {
    "readers": ("warpline.readers",),
    "analyses": (
        "warpline.analyses.tables",
        "warpline.analyses.overview",
        "warpline.analyses.ranges",
        "warpline.analyses.operators",
        "warpline.analyses.diagnosis",
        "warpline.analyses.findings",
    ),
    "renderers": ("warpline.render",),
    "exporters": ("warpline.exporters",),
}


@cache
def load(kind: str) -> None:
    """Import every module of a kind: "readers", "analyses", "renderers" or "exporters".

    An extension that cannot be loaded becomes a RuntimeWarning; the program goes on.
    """
    for package_name in _GROUPS[kind]:
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package_name}.{module.name}")
    _load_extensions(f"warpline.{kind}")


def _load_extensions(group: str) -> None:
    # Looking through the installed packages is slow; without site-packages there are none.
    from importlib.metadata import entry_points  # noqa: PLC0415

    for entry in entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - an extension's defect must not stop us
            owner = entry.dist.name if entry.dist else entry.value
            failure = f"extension {entry.name!r} of {owner} cannot be loaded: {error!r}"
            warnings.warn(failure, RuntimeWarning, stacklevel=3)
