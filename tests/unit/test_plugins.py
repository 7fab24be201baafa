"""Built-ins that are imported by name, and extensions of installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import warpline

TABLES = "from warpline.result import ANALYSES; "
LOOK_UP = (
    "import sys; from warpline import plugins; " + TABLES + "print("
    "plugins.find('analyses', sys.argv[1], ANALYSES).name, len(ANALYSES))"
)
EXTENSION = """
from warpline.result import analysis

@analysis(name={name!r}, title="A table", fields=(), needs=("kernel",))
def table(trace, arguments):
    '''Computes nothing.'''
"""


def look_up(name: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Look up a table in a new process that has these folders in its path."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", LOOK_UP, name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)},
    )


def install(folder: Path, code: str) -> Path:
    """Make a package with one extension, as an installer would."""
    folder.mkdir()
    (folder / "an_extension.py").write_text(code)
    about = folder / "an_extension-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: an-extension\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[warpline.analyses]\nmine = an_extension\n")
    return folder


def test_a_name_imports_one_table() -> None:
    assert look_up("cuda_gpu_kern_sum").stdout == "cuda_gpu_kern_sum 1\n"
    assert look_up("kernel_sum").stdout == "kernel_sum 1\n"  # not in the first package


def test_an_alias_is_found() -> None:
    name, count = look_up("gpukernsum").stdout.split()
    assert name == "cuda_gpu_kern_sum"
    assert int(count) > 30


def test_the_order_of_known_names_does_not_depend_on_what_was_found_before() -> None:
    code = (
        "from warpline import plugins; from warpline.result import ANALYSES\n"
        "for name in {}: plugins.find('analyses', name, ANALYSES)\n"
        "print(ANALYSES.names(), ANALYSES.aliases())"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", code.format(names)], capture_output=True, text=True, check=True
        ).stdout
        for names in (["gpukernsum"], ["kernel_sum", "nvtx_sum", "gpukernsum"])
    }
    assert len(orders) == 1
    assert orders != {"[] {}\n"}


@pytest.mark.parametrize("name", ["no_such_table", "host_sync", "__init__", "os.path", "", "a-b"])
def test_other_names_are_no_tables(name: str) -> None:
    done = look_up(name)
    assert f"UsageError: unknown table {name!r}" in done.stderr


def test_an_extension_adds_a_table(tmp_path: Path) -> None:
    folder = install(tmp_path / "site", EXTENSION.format(name="my_table"))
    assert look_up("my_table", folder).stdout.startswith("my_table ")
    assert look_up("my_table").returncode


def test_a_defective_extension_is_told_whichever_table_is_asked_for(tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "raise ValueError('defect')")
    done = look_up("cuda_gpu_kern_sum", folder)
    assert done.stdout.startswith("cuda_gpu_kern_sum ")
    assert "extension 'mine' of an-extension cannot be loaded: ValueError('defect')" in done.stderr


def test_an_extension_cannot_take_a_built_in_name(tmp_path: Path) -> None:
    folder = install(tmp_path / "site", EXTENSION.format(name="cuda_gpu_kern_sum"))
    done = look_up("cuda_gpu_kern_sum", folder)
    assert done.returncode == 0
    assert "two tables are named 'cuda_gpu_kern_sum'" in done.stderr


def test_folders_that_cannot_be_read_have_no_extensions(tmp_path: Path) -> None:
    (tmp_path / "an_extension-1.0.dist-info").write_text("a file")
    assert look_up("kernel_sum", tmp_path, tmp_path / "absent").stdout == "kernel_sum 1\n"


def test_an_archive_may_have_extensions(tmp_path: Path) -> None:
    archive = tmp_path / "packages.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    assert int(look_up("kernel_sum", archive).stdout.split()[1]) > 30


def test_the_checklist_alone_has_its_checks() -> None:
    demo = Path(warpline.__file__).parent / "data" / "pageable_h2d.fixed.sqlite"
    code = f"import warpline; print(len(warpline.stats({str(demo)!r}, 'checklist')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 12
