"""Reports, converted by a stand-in for nsys, and by the real one where there is one."""

from __future__ import annotations

import gc
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from support.nsys_exports import call, strings, write_export

import warpline
from warpline.cli import main
from warpline.errors import InputError, UnsupportedVersionError
from warpline.readers.nsys import convert
from warpline.readers.nsys.convert import installed_nsys, report_version
from warpline.readers.nsys.sniff import REPORT_MAGIC as MAGIC

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")

# A report that a developer keeps for the last test, and an nsys on PATH to read it.
REAL_REPORT = os.environ.get("WARPLINE_NSYS_REPORT", "")

SCRIPT = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
--version) echo "NVIDIA Nsight Systems version {version}-123v0" ; exit 0 ;;
esac
case "$*" in
*--help*) echo "{options}" ; exit 0 ;;
esac
for argument in "$@"; do
  case "$argument" in --output=*) output="${{argument#--output=}}" ;; esac
done
{action}
"""


class Tools:
    """A root folder with stand-ins for nsys, which log how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        self.export = write_export(
            root / "result.sqlite",
            {"StringIds": strings("cudaMalloc"), "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2)]},
        )

    def install(self, place: str, version: str, action: str | None = None, options: str = ""):
        program = self.root / place
        program.parent.mkdir(parents=True, exist_ok=True)
        action = action or f'cp "{self.export}" "$output"'
        script = SCRIPT.format(log=self.log, version=version, action=action, options=options)
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def tools(tmp_path, monkeypatch) -> Tools:
    found = Tools(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin:/usr/bin")
    real = convert.installed_nsys
    monkeypatch.setattr(convert, "installed_nsys", lambda: real(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return found


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "run" / "my run.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(MAGIC + b" 2025@3@2@0-1v0.\n" + b"\0" * 100)
    return path


def leftovers(tools):
    return list((tools.root / "temporary").iterdir())


def test_a_report_is_exported_to_a_folder_that_goes_with_the_trace(tools, report):
    tools.install("path/nsys", "2025.3.2.1")
    trace = warpline.open(report)
    assert trace.row_count("api_call") == 1
    assert trace.meta.paths == (report,)
    assert trace.meta.format == "nsys-rep"
    assert len(leftovers(tools)) == 1
    assert [item.name for item in report.parent.iterdir()] == [report.name]
    del trace
    gc.collect()
    assert leftovers(tools) == []


@pytest.mark.parametrize("name", ["run.qdrep", "RUN.NSYS-REP", "without-extension"])
def test_reports_are_known_by_content_or_name(tools, report, name):
    tools.install("path/nsys", "2025.3.2.1")
    other = report.with_name(name)
    report.rename(other)
    if "." in name:
        other.write_bytes(b"first bytes of a version that nobody has seen")
    assert warpline.open(other).row_count("api_call") == 1


def test_an_export_named_like_a_report_is_an_export(tools, tmp_path):
    copy = tmp_path / "export.nsys-rep"
    shutil.copyfile(tools.export, copy)
    assert warpline.open(copy).meta.format == "nsys-sqlite"


def test_the_newest_installed_one_is_taken(tools, report):
    tools.install("path/nsys", "2023.1.1.9")
    tools.install("opt/nvidia/nsight-systems/2025.10.1/bin/nsys", "2025.10.1.0")
    place = "opt/nvidia/nsight-compute/2025.3.0/host/target-linux-x64/nsys"
    tools.install(place, "2025.9.3.0")
    tools.install("usr/local/cuda-12.4/bin/nsys", "2024.1.1.0")
    tools.install("opt/nvidia/nsight-systems-cli/2026.1.0/bin/nsys", "broken", action="exit 3")
    found = installed_nsys(tools.root)
    assert [nsys.version[:2] for nsys in found] == [(2023, 1), (2024, 1), (2025, 9), (2025, 10)]
    warpline.open(report)
    assert any(line.startswith("export --type=sqlite") for line in tools.calls())


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ("--include-blobs --include-json", "--include-blobs=true"),
        ("--include-json", "--include-json=true"),
        ("--lazy", None),
    ],
)
def test_payloads_are_asked_for_where_the_version_can(tools, report, options, used):
    tools.install("path/nsys", "2025.3.2.1", options=options)
    warpline.open(report)
    line = next(line for line in tools.calls() if "--type" in line)
    assert ("--include" in line) == (used is not None)
    assert used is None or used in line


def test_without_nsys_the_error_says_what_to_run_elsewhere(tools, report):
    with pytest.raises(InputError, match="not installed") as caught:
        warpline.open(report)
    command = "nsys export --type sqlite --include-blobs=true 'my run.nsys-rep'"
    assert command in str(caught.value.hint)


def test_a_report_newer_than_nsys_names_both_versions(tools, report):
    say = "Exportation error: Report was created in a version newer than your current version"
    tools.install("path/nsys", "2024.2.3.38", action=f'echo "{say}" >&2; exit 1')
    with pytest.raises(UnsupportedVersionError) as caught:
        warpline.open(report)
    assert "written by nsys 2025.3.2" in caught.value.message
    assert "newest nsys installed is 2024.2.3" in caught.value.message
    assert leftovers(tools) == []


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("echo 'Exportation error: magic number mismatch.' >&2; exit 1", "magic number mismatch"),
        ("exit 0", "no reason given"),
        ("kill -9 $$", "no reason given"),
    ],
)
def test_what_nsys_says_is_passed_on(tools, report, action, text):
    tools.install("path/nsys", "2026.2.0.0", action=action)
    with pytest.raises(InputError, match=text) as caught:
        warpline.open(report)
    assert "\n" not in caught.value.message
    assert leftovers(tools) == []


def test_an_nsys_that_hangs_is_given_up(tools, report, monkeypatch):
    monkeypatch.setattr(convert, "EXPORT_TIMEOUT_S", 0.2)
    tools.install("path/nsys", "2026.2.0.0", action="exec sleep 60")
    with pytest.raises(InputError, match="timed out"):
        warpline.open(report)
    assert leftovers(tools) == []


def test_a_result_that_is_no_export_is_refused(tools, report):
    tools.install("path/nsys", "2026.2.0.0", action='echo rubbish > "$output"')
    with pytest.raises(InputError):
        warpline.open(report)
    assert leftovers(tools) == []


@pytest.mark.parametrize(
    ("head", "version"),
    [
        (MAGIC + b" 2024@2@3@38-242334140272v0.\n", (2024, 2, 3, 38)),
        (MAGIC, ()),
        (b"something else 1@2", ()),
        (b"", ()),
    ],
)
def test_the_version_in_the_first_bytes(tmp_path, head, version):
    path = tmp_path / "x.nsys-rep"
    path.write_bytes(head)
    assert report_version(path) == version


@pytest.mark.skipif(
    not REAL_REPORT or shutil.which("nsys") is None,
    reason="WARPLINE_NSYS_REPORT names no report, or no nsys is on PATH",
)
def test_a_real_report_with_the_real_nsys():
    trace = warpline.open(Path(REAL_REPORT))
    assert trace.meta.format == "nsys-rep"
    assert sum(trace.row_count(table) for table in trace.tables) > 0


def test_import_makes_a_recording_of_a_report(tools, report, tmp_path, monkeypatch, capsys):
    tools.install("path/nsys", "2025.3.2.1")
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(report)]) == 0
    assert capsys.readouterr().out == "my run.warpline\n"
    trace = warpline.open(tmp_path / "my run.warpline")
    assert trace["api_call"]["name"].to_list() == ["cudaMalloc"]
    assert main(["import", str(report)]) != 0
    assert "my run.warpline" in capsys.readouterr().err  # it exists
    assert main(["import", "-q", "-f", str(report)]) == 0
    del trace
    gc.collect()
    assert leftovers(tools) == []
