"""Load readers, analyses, renderers and exporters, built in or from installed packages.

A built-in is a module of its package; importing it registers it. An extension is an entry point
in the group ``warpline.readers``, ``warpline.analyses``, ``warpline.renderers`` or
``warpline.exporters``. Its value names a module that registers itself on import.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from warpline.lazy import lazy
from warpline.registry import Registry

if TYPE_CHECKING:
    import pkgutil
    from importlib import metadata
else:
    pkgutil = lazy("pkgutil")
    metadata = lazy("importlib.metadata")

T = TypeVar("T")

_TABLES_OF_NSYS = "warpline.analyses.tables"
_RULES_OF_KERNELS = "warpline.analyses.kernel_findings"
_CHECKS = "warpline.analyses.checks"
# Analyses that ask everything in a package.
_PARTS = {"checklist": _CHECKS}
_GROUPS = {
    "readers": ("warpline.readers",),
    "analyses": (
        _TABLES_OF_NSYS,
        "warpline.analyses.overview",
        "warpline.analyses.ranges",
        "warpline.analyses.modules",
        "warpline.analyses.operators",
        "warpline.analyses.diagnosis",
        "warpline.analyses.series",
        "warpline.analyses.machine",
        "warpline.analyses.host",
        "warpline.analyses.kernels",
        _CHECKS,
        "warpline.analyses.findings",
        _RULES_OF_KERNELS,
    ),
    "kernel-rules": (_RULES_OF_KERNELS,),
    "section-bodies": ("warpline.derived.kernel_sections.bodies",),
    "renderers": ("warpline.render",),
    "exporters": ("warpline.exporters",),
}
_METADATA = (".dist-info", ".egg-info")
_DECLARATION = b"[warpline."  # the heading of a group in entry_points.txt


@cache
def load(kind: str) -> list[str]:
    """Import every module of a kind: "readers", "analyses", "renderers" or "exporters".

    "kernel-rules" are those of the analyses that `warpline kernels` needs, and "section-bodies"
    what its sections show.

    Returns the names of its built-in modules, in order.

    An extension that cannot be loaded causes a RuntimeWarning, not an error.
    """
    names = [name for package_name in _GROUPS[kind] for name in _load_package(package_name)]
    _load_extensions(f"warpline.{kind}")
    return names


def load_default_tables() -> None:
    """Import every analysis that may be printed by default: those of nsys, and of extensions."""
    if _may_have_extensions():
        load("analyses")
    else:
        _load_package(_TABLES_OF_NSYS)


def _load_package(package_name: str) -> list[str]:
    package = importlib.import_module(package_name)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    for name in names:
        importlib.import_module(f"{package_name}.{name}")
    return names


def find(kind: str, name: str, registry: Registry[T]) -> T:
    """Return the item of a name or alias. Raises UsageError if there is none.

    A built-in is a module of its name, and only this module is imported. An alias, an unknown name
    and an installed extension, which may be defective, need every module of the kind.
    """
    if _may_have_extensions():
        load(kind)
    elif name not in registry:
        _load_built_in(kind, name, registry)
        if name not in registry:
            # Hints list names in the order in which `load` imports, whatever was found before.
            registry.put_in_order(load(kind))
    return registry.get(name)


def _load_built_in(kind: str, name: str, registry: Registry[T]) -> None:
    for package_name in _GROUPS[kind] if name.isidentifier() else ():
        module_name = f"{package_name}.{name}"
        try:
            importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name:
                raise
        if name in registry:
            if kind == "analyses" and name in _PARTS:
                _load_package(_PARTS[name])
            return


def _load_extensions(group: str) -> None:
    if not _may_have_extensions():
        return
    for entry in metadata.entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - a defective extension must not stop Warpline
            owner = entry.dist.name if entry.dist else entry.value
            failure = f"extension {entry.name!r} of {owner} cannot be loaded: {error!r}"
            warnings.warn(failure, RuntimeWarning, stacklevel=3)


@cache
def _may_have_extensions() -> bool:
    """Return False if no installed package can have an extension.

    Importing `importlib.metadata`, which knows exactly, takes longer than looking.
    """
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    return any(_may_declare(path) for path in sys.path)


def _may_declare(path: str) -> bool:
    """Return whether packages in this entry of `sys.path` may declare an extension."""
    folder = Path(path)
    try:
        if folder.name.lower().endswith(".egg") or folder.is_file():  # an archive
            return True
        packages = [item for item in folder.iterdir() if item.name.lower().endswith(_METADATA)]
    except OSError:
        return False
    return any(_declares(package / "entry_points.txt") for package in packages)


def _declares(path: Path) -> bool:
    try:
        return _DECLARATION in path.read_bytes()
    except OSError:
        return False
