"""What the documents say about the tree is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

MODULE_ROW = re.compile(r"^\| `(\w+)` \| (here|foreseen) \|", re.MULTILINE)


def test_architecture_lists_every_module(repository: Path) -> None:
    text = (repository / "ARCHITECTURE.md").read_text(encoding="utf-8")
    said = {name: state == "here" for name, state in MODULE_ROW.findall(text)}
    package = repository / "src" / "warpline"
    present = {path.stem for path in package.glob("*.py")}
    present |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert {name for name, is_here in said.items() if is_here} == present


def test_architecture_and_contract_draw_the_same_layers(repository: Path) -> None:
    text = (repository / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## A module imports only from lines below its own")[1]
    drawn = re.findall(r"^    (\S.*)$", section.split("`|` separates")[0], re.MULTILINE)
    config = (repository / "pyproject.toml").read_text(encoding="utf-8")
    block = config.split("layers = [")[1].split("]")[0]
    contract = [re.sub("[()]", "", line) for line in re.findall(r'"([^"]+)"', block)]
    assert drawn == contract


def test_generated_pages_are_current(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, repository / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_between_documents_lead_somewhere(repository: Path) -> None:
    documents = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert broken == []
