"""The house's layers, and what an import may cost."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "warpline"
MODULES = sorted(SOURCE.rglob("*.py"))

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


RECORDING = SOURCE / "data" / "pageable_h2d.bad.sqlite"

# What takes long to import, and which commands do without it.
OTHER_FORMATS = ("warpline.readers.kineto.source", "warpline.readers.recording.source", "zipfile")
OF_DIAGNOSES = (
    "warpline.analyses.findings",
    "warpline.analyses.checks",
    "warpline.presentation.blocks",
    "warpline.replay",
    "warpline.result.changes",
    "warpline.result.diagnosis",
)
SELDOM_USED = (
    "concurrent.futures",
    "difflib",
    "importlib.metadata",
    "logging",
    "polars",
    "rich",
    "shutil",
    "subprocess",
    "tempfile",
    "traceback",
)
# Only for payloads, gzip, and tables that depend on steps.
OF_OTHER_CONTENT = ("json", "zlib")
OTHER_TABLES = ("warpline.analyses.operators", "warpline.analyses.tables.cuda_gpu_trace")
ONE_TABLE = ("stats", "-r", "cuda_gpu_kern_sum", "-f")
NOT_IMPORTED = {
    ("--version",): (*SELDOM_USED, "numpy", "ctypes", "dataclasses", "sqlite3"),
    (str(RECORDING),): (
        *SELDOM_USED,
        *OF_DIAGNOSES,
        *OF_OTHER_CONTENT,
        *OTHER_FORMATS,
        *OTHER_TABLES,
    ),
    ("stats", str(RECORDING)): (*OF_DIAGNOSES, *OTHER_FORMATS, OTHER_TABLES[0]),
    (*ONE_TABLE, "text", str(RECORDING)): (
        *SELDOM_USED,
        *OF_DIAGNOSES,
        *OF_OTHER_CONTENT,
        *OTHER_FORMATS,
        *OTHER_TABLES,
        "warpline.analyses.overview.kernel_sum",
        "warpline.derived.steps.ranges",
        "warpline.render.csv",
    ),
    (*ONE_TABLE, "csv", str(RECORDING)): (*SELDOM_USED, "warpline.render.text"),
    ("analyze", str(RECORDING)): ("polars", "rich", *OTHER_FORMATS[:2]),
}


@pytest.mark.parametrize("words", NOT_IMPORTED, ids=lambda words: " ".join(words[:4]))
def test_commands_do_without(words: tuple[str, ...]) -> None:
    code = (
        "import os, sys\n"
        "from warpline.cli import main\n"
        "said, sys.stdout = sys.stdout, open(os.devnull, 'w', encoding='utf-8')\n"
        f"assert main({list(words)}) == 0\n"
        f"print([m for m in {NOT_IMPORTED[words]} if m in sys.modules], file=said)"
    )
    assert run_python(code) == "[]"


@pytest.mark.parametrize("words", [(str(RECORDING),), (*ONE_TABLE, "text", str(RECORDING))])
def test_no_code_is_generated_for_dataclasses(words: tuple[str, ...]) -> None:
    code = (
        "import os, sys\n"
        "from warpline.cli import main\n"
        "said, sys.stdout = sys.stdout, open(os.devnull, 'w', encoding='utf-8')\n"
        f"assert main({list(words)}) == 0\n"
        "modules = [m for name, m in sys.modules.items() if name.startswith('warpline.')]\n"
        "found = {v for m in modules for v in vars(m).values() if isinstance(v, type)}\n"
        "made = [v.__name__ for v in found if '__dataclass_params__' in vars(v)]\n"
        "print(made, file=said)"
    )
    assert run_python(code) == "['Document']"  # which Diagnosis extends, with fields by keyword


def test_what_commands_do_without_exists() -> None:
    names = {name for modules in NOT_IMPORTED.values() for name in modules}
    assert [name for name in sorted(names) if not importlib.util.find_spec(name)] == []


def deferred(path: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield each use of `lazy`: the name, its module, and what type checkers see by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        for block in (getattr(node, "body", []), getattr(node, "orelse", [])):
            for item in block if isinstance(block, list) else []:
                call = item.value if isinstance(item, ast.Assign) else None
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "lazy":
                    seen = imported(node.body) if is_for_type_checkers(node) else {}
                    yield ast.unparse(item.targets[0]), ast.literal_eval(call.args[0]), seen


def is_for_type_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(body: list[ast.stmt]) -> dict[str, str]:
    """Return the modules that imports bind, by name."""
    found = {}
    for item in body:
        for alias in getattr(item, "names", []):
            origin = f"{item.module}." if isinstance(item, ast.ImportFrom) else ""
            found[alias.asname or alias.name] = f"{origin}{alias.name}"
    return found


def test_what_is_deferred_is_what_type_checkers_see() -> None:
    wrong = [
        (path, name)
        for path in MODULES
        if re.search(r"\blazy\(", path.read_text(encoding="utf-8"))
        for name, module, seen in deferred(path)
        if seen.get(name) != module
    ]
    assert wrong == []


def first_used(path: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield each use of `lazy_names`: what it declares and what type checkers see, both by name."""
    text = path.read_text(encoding="utf-8")
    if "lazy_names(" not in text:
        return
    package = package_of(path)
    for node in ast.parse(text, str(path)).body:
        if not is_for_type_checkers(node):
            continue
        for item in node.orelse:
            call = item.value if isinstance(item, ast.Assign) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "lazy_names":
                declared = ast.literal_eval(call.args[1])
                names = {n: f"{package}.{m}.{n}" for m, all_n in declared.items() for n in all_n}
                yield names, imported(node.body)


def package_of(path: Path) -> str:
    return ".".join(("warpline", *path.parent.relative_to(SOURCE).parts))


def test_names_on_first_use_are_what_type_checkers_see() -> None:
    used = [(package_of(path), *found) for path in MODULES for found in first_used(path)]
    assert used
    for package, names, seen in used:
        assert names == {name: seen.get(name) for name in names}
        exported = getattr(importlib.import_module(package), "__all__", ())
        assert set(names) <= set(exported), package


def test_few_imports_are_within_functions() -> None:
    found = [path.name for path in MODULES for _ in re.findall("PLC0415", path.read_text("utf-8"))]
    assert len(found) < 5, found
