"""What ``warpline doctor`` advises where native libraries are missing, by what was installed."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from warpline.cli import native_cure

PURE, LINUX = "Tag: py3-none-any\n", "Tag: py3-none-manylinux_2_28_x86_64\n"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that stands in for an installation, on Linux, x86-64, glibc 2.36."""
    monkeypatch.delenv("WARPLINE_NATIVE", raising=False)
    monkeypatch.delenv("WARPLINE_CORE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    package = tmp_path / "site" / "warpline" / "cli" / "native_cure.py"
    monkeypatch.setattr(native_cure, "__file__", str(package))

    def make(tag: str, origin: object = None) -> None:
        folder = tmp_path / "site" / "warpline-0.1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: warpline\nVersion: 0.1.0\n")
        (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\n{tag}")
        if origin is not None:
            (folder / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.setattr(metadata, "distribution", lambda _: metadata.PathDistribution(folder))

    return make


def cure() -> native_cure.NativeCure:
    found = native_cure.native_cure()
    assert found is not None
    return found


def advice() -> str:
    return cure().text


def test_who_has_the_wheel_for_all_systems_is_told_of_the_one_for_linux(install):
    install(PURE)
    assert advice() == (
        "install warpline's wheel for Linux, whose name ends in manylinux_2_28_x86_64.whl: this one"
        " is for all systems"
    )
    assert cure().commands == ()


@pytest.mark.parametrize(
    ("machine", "library"),
    [("x86_64", ("glibc", "2.17")), ("aarch64", ("", "")), ("riscv64", ("glibc", "2.39"))],
)
def test_where_no_wheel_for_linux_fits_it_is_built(install, monkeypatch, machine, library):
    install(PURE)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: library)
    assert advice() == (
        "build warpline's source distribution (.tar.gz) with a C++20 compiler: its wheels for Linux"
        " are for x86_64 and aarch64 with glibc 2.28 or newer"
    )


def test_who_built_it_is_told_of_the_directory_while_that_is_there(install, tmp_path):
    source = tmp_path / "my source"
    (source / "native").mkdir(parents=True)
    (source / "pyproject.toml").touch()
    install(PURE, {"url": source.as_uri(), "dir_info": {}})
    assert advice().endswith(f"build in the source directory: {cure().commands[-1]}")
    assert cure().commands[-1].endswith(f"--no-deps '{source}'")
    (source / "pyproject.toml").unlink()
    assert advice().startswith("install warpline's wheel for Linux")


@pytest.mark.parametrize("origin", [[], {"url": 3, "dir_info": {}}, {"dir_info": {}}, "x"])
def test_an_odd_origin_is_none(install, origin):
    install(PURE, origin)
    assert advice().startswith("install warpline's wheel for Linux")


def test_a_wheel_for_linux_without_its_libraries_is_installed_again(install):
    install(LINUX)
    assert advice().startswith("install warpline again")


def test_what_was_not_installed_is_nothing_to_reinstall(install, monkeypatch):
    install(PURE)

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert advice().startswith("install warpline again")


def test_on_other_systems_nothing_helps(install, monkeypatch):
    install(PURE)
    monkeypatch.setattr(sys, "platform", "win32")
    assert native_cure.native_cure() is None
