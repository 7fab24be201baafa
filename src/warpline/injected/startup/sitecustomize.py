"""Runs when a recorded Python starts: it is first on PYTHONPATH, and leaves no trace of that.

Any version of Python may come here, so this file has no syntax of a newer one. After it, sys.path
and `sitecustomize` are what they would be without it; PYTHONPATH stays, for programs that this one
starts.
"""

import importlib
import os
import sys


def _leave_path():
    """Remove this directory from sys.path and return it."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [
        entry
        for entry in sys.path
        if not entry or os.path.abspath(entry) != here  # noqa: PTH100
    ]
    sys.path_importer_cache.pop(here, None)
    return here


def _begin(here):
    """Start what is asked for."""
    if sys.version_info < (3, 9):
        return
    name, folder = "_warpline_injected", os.path.dirname(here)  # noqa: PTH120
    machinery = importlib.import_module("importlib.machinery")
    loader = machinery.SourceFileLoader(name, os.path.join(folder, "__init__.py"))  # noqa: PTH118
    package = sys.modules[name] = type(sys)(name)
    package.__spec__ = machinery.ModuleSpec(name, loader, origin=loader.path, is_package=True)
    package.__spec__.submodule_search_locations.append(folder)
    package.__package__, package.__path__ = name, [folder]
    loader.exec_module(package)
    package.begin()


def _run_next():
    """Run the next sitecustomize on sys.path; ImportError if there is none, as without us."""
    finder = importlib.import_module("importlib.machinery").PathFinder
    spec = finder.find_spec(__name__)
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name=__name__)
    module = importlib.import_module("importlib.util").module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    try:  # noqa: SIM105 - contextlib is not to be loaded
        _begin(_leave_path())
    except Exception:  # noqa: BLE001, S110 - the program must not notice
        pass
    if sys.version_info >= (3, 6):
        _run_next()
