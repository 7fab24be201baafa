"""What is published: warpline-agent has what recording takes, and needs nothing else."""

from __future__ import annotations

import fnmatch
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import agent_wheel
import components
import make_packages
import pytest
import site_archive
import wheel_file
from recording_modules import Modules

import warpline
from warpline import installation
from warpline.capture.machine.agent import agent_library
from warpline.cli import manual
from warpline.errors import AgentMissingError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def modules() -> Modules:
    return Modules(ROOT / "src")


@pytest.fixture
def agent(modules: Modules, tmp_path: Path) -> list[str]:
    """The command of an installed warpline-agent, in a Python without other packages."""
    folder = tmp_path / "agent"
    for name in modules.recording():
        path = folder / modules.paths[name].relative_to(ROOT / "src")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(modules.paths[name])
    (folder / agent_wheel.MARKER).touch()
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); from warpline.__main__ import run; run()"
    )
    return [sys.executable, "-I", "-S", "-c", code]


def _run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        native = {"WARPLINE_AGENT": str(agent_library())}  # an installed package brings it
    except AgentMissingError as error:
        pytest.skip(str(error))
    return subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **native},
    )


def test_the_marker_is_what_is_looked_for() -> None:
    assert f"warpline/{installation.MARKER}" == agent_wheel.MARKER


def test_recording_takes_no_other_packages(modules: Modules) -> None:
    assert {name: modules.needs(name) for name in modules.recording() if modules.needs(name)} == {}
    assert modules.needs("warpline.trace") >= {"numpy"}


def test_the_agent_records_and_refuses_to_read(agent: list[str], tmp_path: Path) -> None:
    done = _run(*agent, "profile", "-q", "-o", "x", "--", sys.executable, "-c", "", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "process" in warpline.open(tmp_path / "x.warpline").tables
    done = _run(*agent, "x.warpline", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: reading recordings requires Warpline")
    done = _run(*agent, "profile", "--stats=true", "--", "true", folder=tmp_path)
    assert done.stderr.startswith("error: --stats requires Warpline")
    done = _run(*agent, "analyze", "x.warpline", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: warpline-agent has no command 'analyze'")


def test_both_packages_in_one_place_are_refused(agent: list[str], tmp_path: Path) -> None:
    (tmp_path / "agent" / "warpline" / "api").mkdir()
    done = _run(*agent, "--version", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: warpline and warpline-agent are both installed in")


def test_the_same_files_make_the_same_wheel(tmp_path: Path) -> None:
    files = {"a-1.dist-info/WHEEL": b"", "b.py": b"1", "a.so": b"2"}
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    again = {**dict(reversed(files.items())), "a-1.dist-info/RECORD": b"x"}
    wheel_file.write(one, files, 1_700_000_000)
    wheel_file.write(other, again, 1_700_000_000)
    assert one.read_bytes() == other.read_bytes()
    record = wheel_file.read(one)["a-1.dist-info/RECORD"].decode().splitlines()
    assert [line.partition(",")[0] for line in record] == [*sorted(files), "a-1.dist-info/RECORD"]
    # sha256 of "1", in base64 for URLs
    assert "b.py,sha256=a4ayc_80_OGda4BO_1o_V0etpOqiLx1JwB5S3beHW0s,1" in record


def test_what_the_viewer_contains_is_listed_with_its_license() -> None:
    parts = components.inside({"warpline/viewer/dist/viewer.js"}, None)
    manifest = json.loads((ROOT / "viewer/package.json").read_text(encoding="utf-8"))
    assert set(manifest["dependencies"]) <= {part.name for part in parts}
    assert {part.license for part in parts} == {"MIT"}
    assert all(b"MIT License" in text for text in components.texts(parts).values())


def test_pages_on_an_index_have_no_links_into_the_repository() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert config["project"]["readme"] == "release/index.md"
    for name in ("index.md", "index-agent.md"):
        text = (ROOT / "release" / name).read_text(encoding="utf-8")
        assert re.findall(r"\]\((?!https:)|<img", text) == []


def test_released_wheels_have_the_site_in_place_of_its_pages(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "docs").mkdir(parents=True)
    (site / "docs" / "index.html").write_text("<h1>Warpline</h1>", encoding="utf-8")
    (site / "furo.js.map").touch()
    files = {"warpline/docs/index.md": b"# Warpline", "warpline/units.py": b""}
    found = site_archive.with_site(files, site)
    assert set(found) == {"warpline/units.py", site_archive.NAME}
    assert found == site_archive.with_site(files, site), "the same site gives the same bytes"
    content = io.BytesIO(lzma.decompress(found[f"warpline/{manual.ARCHIVE}"]))
    with zipfile.ZipFile(content) as archive:
        assert archive.namelist() == ["docs/index.html"]


def test_what_the_site_contains_is_listed_with_its_license() -> None:
    parts = components.inside({site_archive.NAME}, None)
    assert {part.name for part in parts} >= {"sphinx", "furo", "pygments", "Snowball", "gumshoejs"}
    assert set(components.texts(parts)) == {part.text for part in parts}
    assert components.license_of(parts) == "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND MIT"


def test_all_files_have_the_version(repository: Path) -> None:
    version = warpline.__version__
    for name, text in {
        "CITATION.cff": f"\nversion: {version}\n",
        "release/conda/recipe.yaml": f"\n  version: {version}\n",
        "release/Containerfile": f" warpline=={version} ",
    }.items():
        assert text in (repository / name).read_text(encoding="utf-8"), name


def test_conda_needs_what_the_wheel_needs(repository: Path) -> None:
    config = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (repository / "release/conda/recipe.yaml").read_text(encoding="utf-8")
    listed = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    found = {line.strip("- ").replace(" ", "") for line in listed.splitlines()}
    assert found == {f"python{config['requires-python']}", *config["dependencies"]}


def test_the_source_distribution_has_the_tree(repository: Path) -> None:
    """What `release/check.py` finds in the file, as far as patterns tell."""
    words = ["git", "-C", str(repository), "ls-files"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split("\n")
    if not listed[0]:
        pytest.skip("not a git repository")
    config = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = config["tool"]["scikit-build"]["sdist"]["include"]
    kept = [each for each in patterns if not each.startswith("!")]
    assert patterns[: len(kept)] == kept, "the last pattern that fits decides"
    for name in filter(None, listed):
        is_left_out = name.startswith(tuple(make_packages.LEFT_OUT))
        is_kept = any(_fits(f"/{name}", each) for each in kept)
        assert is_kept != is_left_out, name


def _fits(name: str, pattern: str) -> bool:
    """Return whether a pattern of files, or of all that is in a folder, has the file."""
    folder, _, last = pattern.rpartition("/")
    if last == "**":
        return name.startswith(f"{folder}/")
    own_folder, _, own = name.rpartition("/")
    return own_folder == folder and fnmatch.fnmatchcase(own, last)
