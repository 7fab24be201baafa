"""The house's layers, and what an import may cost."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

CONTRACTS = "tool.importlinter.contracts"


def run_python(code: str, *options: str) -> str:
    """Return what a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="session")
def contracts(repository: Path) -> dict[str, dict[str, Any]]:
    config = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    return {entry["id"]: entry for entry in config["tool"]["importlinter"]["contracts"]}


def test_import_contracts_hold(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True,
        text=True,
        check=False,
        cwd=repository,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_of_islands_is_listed(
    repository: Path, contracts: dict[str, dict[str, Any]]
) -> None:
    listed = set(contracts["islands"]["modules"])
    source = repository / "src"
    packages = [source / "warpline" / name for name in ("readers", "analyses")]
    packages += [path for path in packages[1].iterdir() if (path / "__init__.py").exists()]
    expected = {".".join(path.relative_to(source).parts) + ".*" for path in packages}
    assert listed == expected


def test_comparison_and_render_are_kept_from_traces(
    repository: Path, contracts: dict[str, dict[str, Any]]
) -> None:
    present = {
        f"warpline.{name}"
        for name in ("render", "comparison")
        if (repository / "src" / "warpline" / name).exists()
        or (repository / "src" / "warpline" / f"{name}.py").exists()
    }
    assert set(contracts["render-sees-documents"]["source_modules"]) == present


def test_import_is_light() -> None:
    code = (
        "import sys, warpline;"
        "print([m for m in ('numpy', 'polars', 'rich', 'sqlite3', 'ctypes') if m in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_help_loads_no_array_library() -> None:
    code = (
        "import sys\n"
        "from warpline.cli import main\n"
        "sys.stdout = open(__import__('os').devnull, 'w', encoding='utf-8')\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'polars', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
