"""``warpline doctor``, ``warpline demo`` and ``warpline completion``."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import shtab

import warpline
from warpline import native
from warpline.cli import doctor, parser


class TestDoctor:
    def test_it_names_versions_and_readers(self, run):
        done = run("doctor")
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith(f"Warpline {warpline.__version__}, Python ")
        numpy = importlib.metadata.version("numpy")
        assert f"ok    numpy {numpy}\n" in done.out
        assert "nsys-sqlite (.sqlite)" in done.out
        assert done.out.endswith("\nThis installation works.\n")

    def test_as_json(self, run):
        found = json.loads(run("doctor", "--format", "json").out)
        assert found["is_usable"] is True
        assert found["version"] == warpline.__version__
        assert found["terminal"]["is_terminal"] is False

    def test_a_missing_core_is_told_with_its_reason_and_its_cure(self, run, monkeypatch):
        absent = native.NativeStatus(
            available=False, path=None, abi=None, reason="it was not built"
        )
        monkeypatch.setattr(native, "status", lambda: absent)
        monkeypatch.delenv("WARPLINE_NATIVE", raising=False)
        monkeypatch.delenv("WARPLINE_CORE", raising=False)
        monkeypatch.setattr("sys.platform", "linux")
        done = run("doctor")
        assert done.status == 0
        assert "slow  native core: it was not built; recordings are read more slowly\n" in done.out
        source = Path(warpline.__file__).parents[2]
        assert "fix: install a C++20 compiler, then build in the source directory: " in done.out
        assert f" -m pip install --force-reinstall --no-deps {source}\n" in done.out
        monkeypatch.setenv("WARPLINE_NATIVE", "0")
        assert "fix: unset WARPLINE_NATIVE\n" in run("doctor").out
        monkeypatch.delenv("WARPLINE_NATIVE")
        monkeypatch.setattr("sys.platform", "win32")
        assert "      fix: install" not in run("doctor").out.partition("agent:")[0]

    def test_without_numpy_it_still_speaks_and_fails(self, run, monkeypatch):
        real = importlib.metadata.version

        def version(name):
            if name in {"numpy", "shtab"}:
                raise importlib.metadata.PackageNotFoundError(name)
            return real(name)

        monkeypatch.setattr(importlib.metadata, "version", version)
        done = run("doctor")
        assert done.status == 1
        assert "bad   numpy: not installed; required for all commands\n" in done.out
        assert "-     shtab: not installed; optional, for warpline completion\n" in done.out
        assert done.out.endswith("\nThis installation does not work.\n")

    def test_an_old_numpy_does_not_do(self):
        package = {"name": "numpy", "version": "1.26.4", "is_needed": True}
        assert not doctor._is_usable([package])
        assert doctor._is_usable([{**package, "version": "2.0.0"}])

    def test_an_installed_nsys_is_found(self, run, monkeypatch, tmp_path):
        fake = tmp_path / "nsys"
        fake.write_text("#!/bin/sh\necho NVIDIA Nsight Systems version 2099.1.2\n")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert f"2099.1.2 ({fake})" in run("doctor").out


class TestDemo:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        """An empty working directory."""
        folder = tmp_path / "here"
        folder.mkdir()
        monkeypatch.chdir(folder)
        return folder

    def test_it_ends_with_the_page_that_it_wrote(self, run, folder):
        *_, about, path, how = run("demo").out.splitlines()
        page = folder / "warpline-demo.html"
        assert path == f"  {page}"
        assert how == f"Open it in a browser: {page.as_uri()}"
        assert f"one file of {page.stat().st_size / 1024:.0f} KiB:" in about
        assert 'id="warpline-head"' in page.read_text(encoding="utf-8")

    def test_it_replaces_nothing_and_repeats_nothing(self, run, folder):
        (folder / "warpline-demo.html").write_text("mine")
        for _ in range(2):
            assert str(folder / "warpline-demo-2.html") in run("demo").out
        assert len(list(folder.iterdir())) == 2
        assert (folder / "warpline-demo.html").read_text() == "mine"

    def test_a_folder_that_cannot_be_written_to(self, run, folder, tmp_path, monkeypatch):
        folder.rmdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        done = run("demo")
        assert (done.status, done.err) == (0, "")
        page = Path(done.out.splitlines()[-2].strip())
        assert page.parent.parent == tmp_path
        assert page.is_file()
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        done = run("demo")
        assert (done.status, done.err) == (0, "")
        assert "cannot be written" in done.out.splitlines()[-1]

    def test_it_shows_what_differs(self, run, bad, fixed):
        done = run("demo")
        assert (done.status, done.err) == (0, "")
        lines = re.sub(" +", " ", done.out).splitlines()
        # By sqlite3, per step: end of the last operation minus start of the first one, by 6.
        assert " GPU, from first to last operation 17.3 ms 2.72 ms".replace("2.72", "2.73") in lines
        assert " host-to-device copies 14.4 ms 2.42 ms" in lines
        assert " bandwidth 9.30 GB/s 55.5 GB/s" in lines
        assert f"  warpline stats {bad}" in done.out.splitlines()
        assert f"  warpline analyze {fixed}" in done.out.splitlines()
        assert "GPU busy 98.3% of a 17.4 ms step, but 84.0% is exposed copies." in done.out

    def test_every_command_it_names_works(self, run):
        commands = run("demo").out.split("\nTry:\n")[1].split("\n\n")[0].splitlines()
        assert len(commands) >= 4
        for line in commands:
            program, *words = line.split()
            assert program == "warpline"
            assert run(*words).status == 0, line

    def test_the_recordings_can_be_copied(self, run, bad, tmp_path):
        folder = tmp_path / "new" / "folder"
        done = run("demo", "--copy", str(folder))
        assert done.status == 0
        assert str(folder / Path(bad).name) in done.out
        assert (folder / Path(bad).name).read_bytes() == Path(bad).read_bytes()
        assert len(list(folder.iterdir())) == 10
        assert run("kernels", "--page", "session", str(folder / "target.ncu-rep")).status == 0
        again = run("demo", "--copy", str(folder))
        assert (again.status, again.out, again.err) == (
            2,
            "",
            (
                f"error: {folder / Path(bad).name} already exists\n"
                "hint: use --force-overwrite to replace it\n"
            ),
        )
        (folder / Path(bad).name).write_text("mine")
        assert run("demo", "--copy", str(folder), "--force-overwrite").status == 0
        assert (folder / Path(bad).name).read_bytes() == Path(bad).read_bytes()

    def test_the_recordings_are_small_and_hold_no_secrets(self, bad, fixed):
        files = [Path(bad), Path(fixed)]
        assert sum(path.stat().st_size for path in files) <= 2**20
        for path in files:
            content = path.read_bytes()
            for secret in (b"ENVIRONMENT", b"TOKEN", b"/home", b"/root", b"/app", b"/out"):
                assert secret not in content


class TestCompletion:
    @pytest.mark.parametrize("shell", shtab.SUPPORTED_SHELLS)
    def test_a_script_knows_commands_options_and_tables(self, run, shell):
        done = run("completion", shell)
        assert (done.status, done.err) == (0, "")
        for item in parser.commands():
            assert item.NAME in done.out
        assert "filter-nvtx" in done.out
        assert "cuda_gpu_kern_sum" in done.out

    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    def test_bash_takes_the_script_and_completes(self, run):
        script = run("completion", "bash").out
        ask = (
            "COMP_WORDS=(warpline stats --filter-n); COMP_CWORD=2; _shtab_warpline; echo $COMPREPLY"
        )
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["--filter-nvtx"]
