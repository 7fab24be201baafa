"""The recipes of CONTRIBUTING.md work as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BLOCK = re.compile(r"^(File|Add to) `([^`]+)`:\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLLECTOR = "Add a collector"

# Puts the new files where the package's folders look for their modules.
CONFTEST = """\
import importlib
from pathlib import Path

SOURCE = Path(__file__).parent / "src"
for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
    name = ".".join(folder.relative_to(SOURCE).parts)
    importlib.import_module(name).__path__.append(str(folder))
"""

# Makes the copy of the package the one that is imported: an editable install has a finder for it.
SITE = """\
import sys

sys.meta_path[:] = [found for found in sys.meta_path if "Editable" not in type(found).__name__
                    and "ScikitBuild" not in type(found).__name__]
"""

DECLARED = """\
from warpline.capture.flags import capabilities
from warpline.schema import TABLES

assert "memory-use" in capabilities.COLLECTED
assert "memory_use" in TABLES
"""


@pytest.fixture(scope="module")
def sections(repository: Path) -> dict[str, str]:
    """The recipes by their heading."""
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    heading, *others = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    assert heading.startswith("# Contributing")
    return dict(zip(others[::2], others[1::2], strict=True))


def blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a recipe: path, language and content; additions as diffs or to the end."""
    for verb, path, language, content in BLOCK.findall(text):
        assert (verb == "Add to") == (language in {"diff", "toml"})
        yield path, language, content


def write(path: Path, language: str, content: str) -> None:
    """Write a file, add to its end, or apply a diff whose lines occur once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if language == "toml":
        content = path.read_text(encoding="utf-8") + "\n" + content
    if language == "diff":
        lines = content.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1
        content = text.replace(before, "".join(line[1:] for line in lines if line[0] in " +"))
    path.write_text(content, encoding="utf-8")


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_recipes_work(sections: dict[str, str], tmp_path: Path) -> None:
    for title, text in sections.items():
        for path, language, content in blocks(text) if title != COLLECTOR else ():
            write(tmp_path / path, language, content)
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    run(sys.executable, "-m", "pytest", "--quiet", "--import-mode=importlib", "tests", cwd=tmp_path)
    sources = {path.parent.name for path in (tmp_path / "src").rglob("*.py")}
    assert sources == {"readers", "tables", "render", "cli"}


@pytest.fixture
def with_collector(sections: dict[str, str], repository: Path, tmp_path: Path) -> Path:
    """Return a copy of the package and of native/ in which that recipe was followed."""
    skipped = shutil.ignore_patterns("__pycache__")
    for part in ("src/warpline", "native"):
        shutil.copytree(repository / part, tmp_path / part, ignore=skipped)
    for path, language, content in blocks(sections[COLLECTOR]):
        write(tmp_path / path, language, content)
    (tmp_path / "src" / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    run(sys.executable, "native/raw/generate", cwd=tmp_path)
    return tmp_path


def test_a_collector_is_known_once_it_is_declared(with_collector: Path) -> None:
    path = str(with_collector / "src")
    run(sys.executable, "-c", DECLARED, cwd=with_collector, PYTHONPATH=path)


def newest_build(repository: Path) -> Path:
    """Return the folder of the newest build that an installation left; CI installs, too."""
    found = [path.parents[3] for path in repository.glob(f"build/*/{batches('agent')}")]
    if not found or shutil.which("c++") is None:
        pytest.skip("no build of native/, or no compiler: run make test")
    return max(found, key=lambda build: (build / "CMakeCache.txt").stat().st_mtime)


def batches(part: str) -> Path:
    """Return where a build has the files that include several sources each, and their objects."""
    return Path(part, "CMakeFiles", f"{part}_objects.dir", "Unity")


def link(part: str, sources: list[str], root: Path, build: Path) -> Path:
    """Link a library of a build's objects; what holds some sources is compiled again."""
    native, objects = root / "native", []
    flags = ["-std=c++20", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique"]
    flags += [f"-I{native / place}" for place in (f"{part}/include", f"{part}/src", "raw")]
    changed = {str(native / part / "src" / source) for source in sources}
    stale = []
    for batch in sorted((build / batches(part)).glob("*.cxx")):
        text = batch.read_text().replace(str(build.parents[1] / "native"), str(native))
        if mine := {path for path in changed if f'"{path}"' in text}:
            changed -= mine
            stale.append(root / batch.name)
            stale[-1].write_text(text)
        else:
            objects.append(batch.with_name(batch.name + ".o"))
    for source in (*stale, *map(Path, sorted(changed))):
        objects.append(root / f"{source.name}.o")
        run("c++", *flags, "-c", source, "-o", objects[-1], cwd=root)
    library = root / f"libwarpline_{part}.so"
    options = ["-shared", "-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL", "-ldl"]
    run("c++", *objects, *options, "-lpthread", "-o", library, cwd=root)
    return library


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="programs are recorded on Linux")
def test_a_collector_records(with_collector: Path, repository: Path) -> None:
    build = newest_build(repository)
    test = "tests/capture/test_memory_use.py"
    run(
        *(sys.executable, "-m", "pytest", "--quiet", "--import-mode=importlib", test),
        cwd=with_collector,
        PYTHONPATH=str(with_collector / "src"),
        WARPLINE_AGENT=str(link("agent", ["machine/memory_use.cpp"], with_collector, build)),
        # All that depends on which records are rows.
        WARPLINE_CORE=str(link("core", ["raw/rows.cpp"], with_collector, build)),
    )
