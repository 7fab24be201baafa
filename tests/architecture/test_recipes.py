"""The recipes of CONTRIBUTING.md work as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

RECIPE = re.compile(r"^File `([^`]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Puts the new files where the package's folders look for their modules.
CONFTEST = """\
import importlib
from pathlib import Path

SOURCE = Path(__file__).parent / "src"
for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
    name = ".".join(folder.relative_to(SOURCE).parts)
    importlib.import_module(name).__path__.append(str(folder))
"""


def test_recipes_work(repository: Path, tmp_path: Path) -> None:
    recipes = RECIPE.findall((repository / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for name, code in recipes:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "--import-mode=importlib", "tests"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sources = {path.parent.name for path in (tmp_path / "src").rglob("*.py")}
    assert sources == {"readers", "tables", "render", "cli"}
