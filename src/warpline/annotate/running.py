"""Run a program in this process, as `python` runs it."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

_OWN_FOLDER = str(Path(__file__).parent)

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


class ProgramNotFoundError(Exception):
    """There is no such script, or no such module with code to run."""


@dataclass(frozen=True)
class Program:
    """The program to run as ``__main__``.

    Attributes:
        file: Its file, absolute.
        called: Its ``sys.argv[0]``.
        name: The script's name without extension, or the module's name.
        spec: The module's spec, or None for a script.
    """

    file: Path
    called: str
    name: str
    spec: ModuleSpec | None

    @property
    def folder(self) -> Path:
        """The directory of its own files."""
        return self.file.resolve().parent


def find_script(path: str) -> Program:
    """Return a script as a program; ProgramNotFoundError if there is no such file."""
    file = Path(path)
    if not file.is_file():
        what = "is a directory" if file.is_dir() else "does not exist"
        raise ProgramNotFoundError(f"{path} {what}")
    return Program(file.absolute(), path, file.stem, None)


def find_module(name: str) -> Program:
    """Return a module, or the ``__main__`` of a package, as a program.

    Raises:
        ProgramNotFoundError: It cannot be found, or has no Python code.
    """
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ProgramNotFoundError(f"-m {name}: {error}") from error
    if spec is None or spec.origin is None or not _has_code(spec):
        raise ProgramNotFoundError(f"-m {name}: no such module with Python code")
    file = Path(spec.origin).absolute()
    return Program(file, str(file), name, spec)


def _has_code(spec: ModuleSpec) -> bool:
    is_python = spec.has_location and not isinstance(spec.loader, ExtensionFileLoader)
    return is_python and hasattr(spec.loader, "get_code")


def run(program: Program, arguments: Sequence[str]) -> None:
    """Run a program to its end; its exceptions propagate and are shown as without this runner."""
    sys.argv[:] = [program.called, *arguments]
    if program.spec is None and not sys.flags.safe_path:
        sys.path[0] = str(program.folder)  # replaces the current directory, which -m adds
    module = _main_module(program)
    try:
        code = _code(program)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)  # noqa: S102 - what a runner is for
    except BaseException:
        sys.excepthook = functools.partial(_show_without_us, sys.excepthook)
        raise


def _main_module(program: Program) -> ModuleType:
    module = ModuleType("__main__")
    module.__file__ = str(program.file)
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    module.__dict__["__cached__"] = None
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    if program.spec is None:
        module.__loader__ = SourceFileLoader("__main__", str(program.file))
    else:
        module.__spec__ = program.spec
        module.__loader__ = program.spec.loader
        module.__package__ = program.spec.parent
        module.__dict__["__cached__"] = program.spec.cached
    return module


def _code(program: Program) -> CodeType:
    if program.spec is not None:
        loader: Any = program.spec.loader
        code: CodeType = loader.get_code(program.spec.name)
        return code
    return compile(program.file.read_bytes(), str(program.file), "exec", dont_inherit=True)


def _show_without_us(
    hook: Hook, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Show an error without the frames of this runner."""
    inner = traceback
    while inner is not None and _is_ours(inner.tb_frame.f_code.co_filename):
        inner = inner.tb_next
    if inner is not None or isinstance(error, SyntaxError):
        error.__traceback__ = traceback = inner
    hook(kind, error, traceback)


def _is_ours(file: str) -> bool:
    return file.startswith((_OWN_FOLDER, "<frozen runpy", "<frozen importlib"))
