"""The house's layers, and what an import may cost."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

LINT = "from importlinter.cli import lint_imports_command as lint; lint(['--no-logo'])"

HEAVY_MODULES = ("numpy", "polars", "rich", "sqlite3", "ctypes")

# What a profiled program imports must cost it nothing; a module joins when it exists.
LIGHT_MODULES = [
    module
    for module in ("warpline", "warpline.annotate", "warpline.capture")
    if importlib.util.find_spec(module)
]


def run_python(code: str) -> str:
    """Return what a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="session")
def contracts(repository: Path) -> dict[str, dict[str, Any]]:
    config = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    return {entry["id"]: entry for entry in config["tool"]["importlinter"]["contracts"]}


def test_import_contracts_hold(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT],
        capture_output=True,
        text=True,
        check=False,
        cwd=repository,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_family_of_analyses_is_listed(
    repository: Path, contracts: dict[str, dict[str, Any]]
) -> None:
    families = (repository / "src" / "warpline" / "analyses").iterdir()
    expected = {
        f"warpline.analyses.{family.name}.*"
        for family in families
        if (family / "__init__.py").exists()
    }
    assert set(contracts["analyses-are-islands"]["modules"]) == expected


def test_comparison_and_render_are_kept_from_traces(
    repository: Path, contracts: dict[str, dict[str, Any]]
) -> None:
    present = {
        f"warpline.{name}"
        for name in ("render", "presentation", "comparison")
        if (repository / "src" / "warpline" / name).exists()
        or (repository / "src" / "warpline" / f"{name}.py").exists()
    }
    assert set(contracts["render-sees-documents"]["source_modules"]) == present


@pytest.mark.parametrize("module", LIGHT_MODULES)
def test_import_is_light(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY_MODULES} if m in sys.modules])"
    assert run_python(code) == "[]"


def test_help_loads_no_array_library() -> None:
    code = (
        "import sys\n"
        "from warpline.cli import main\n"
        "sys.stdout = open(__import__('os').devnull, 'w', encoding='utf-8')\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([m for m in {HEAVY_MODULES[:3]} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
