"""The page of profiled kernels beside the JSON of the same report."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any

from support.browsing import Viewer

import warpline
from warpline.cli import main

ADDRESSES = {"summary": "#summary", "details": "#details?launch=0", "source": "#source?code=0"}


Written = tuple[Path, dict[str, Any]]  # a page, and the JSON of its report


class Page:
    """The page of one report, and the JSON of the same report."""

    def __init__(self, viewer: Viewer, path: Path, kernels: dict[str, Any]) -> None:
        self.viewer = viewer
        self.path = path
        self.kernels = kernels["kernels"]
        self.code = kernels["code"]

    def open(self, address: str = "#summary") -> Viewer:
        self.viewer.page.goto("about:blank")
        self.viewer.page.goto(self.path.as_uri() + address)
        self.viewer.wait("model.isComplete.value && marks('warpline-shown') > 0")
        return self.shown(address)

    def turn(self, address: str) -> Viewer:
        self.viewer.page.evaluate("(address) => { location.hash = address; }", address)
        self.viewer.wait(f"model.page.value === '{address[1:].partition('?')[0]}'")
        return self.shown(address)

    def shown(self, address: str) -> Viewer:
        """Wait until what an address asks for is there."""
        waiting = {"details": "model.kernel.value !== null", "source": "model.code.value !== null"}
        for page, condition in waiting.items():
            if address.startswith(f"#{page}"):
                self.viewer.wait(condition)
        self.viewer.frame()
        return self.viewer

    def values(self, selector: str) -> list[tuple[str | None, float | None]]:
        """Return the numbers of elements, by their metric."""
        found = self.viewer.find(selector).evaluate_all(
            "all => all.map(one => [one.dataset.metric ?? null, one.dataset.value ?? null])"
        )
        return [(metric, None if value is None else float(value)) for metric, value in found]


def written(name: str, folder: Path, data_dir: Path) -> Written:
    """Return the page of a committed report and its JSON, made in a folder once."""
    path = folder / f"{name}.ncu-rep"
    page, listed = path.with_suffix(".html"), path.with_suffix(".json")
    if not listed.exists():
        packed = (data_dir / "ncu" / f"{name}.ncu-rep.xz").read_bytes()
        path.write_bytes(lzma.decompress(packed))
        warpline.report(warpline.open(path), page, overwrite=True)
        part = listed.with_suffix(f".{os.getpid()}")  # complete when it has its name
        arguments = ["--json", "--page", "source", "--print-details", "all"]
        assert main(["kernels", str(path), *arguments, "--log-file", str(part)]) == 0
        part.replace(listed)
    return page, json.loads(listed.read_text())
