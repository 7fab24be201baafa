"""``warpline mcp`` as a command; `tests/mcp_tools` asks its tools."""

from __future__ import annotations

import sys


def test_without_the_sdk_it_names_the_extra(run, monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.split(".")[0] in {"mcp", "mcp_types"}]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("mcp", "mcp_types"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run("mcp", str(tmp_path))
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: warpline mcp requires the package mcp, 2.3 or newer")
    assert "hint: run pip install 'warpline[mcp]'" in done.err


def test_folders_are_checked_first(run, tmp_path, bad):
    assert run("mcp").err.startswith("error: missing FOLDER argument")
    assert run("mcp", str(tmp_path / "none")).status == 1
    assert "is not a directory" in run("mcp", bad).err
