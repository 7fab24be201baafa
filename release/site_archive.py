"""The documentation site as one file of a wheel, which `warpline docs` unpacks and opens."""

from __future__ import annotations

import io
import lzma
import zipfile
from collections.abc import Mapping
from pathlib import Path

NAME = "warpline/site.zip.xz"  # as `warpline.cli.manual.ARCHIVE`
_PAGES = "warpline/docs/"  # in Markdown; the site has them, too
_LEFT_OUT = (".map", ".inv", ".buildinfo")  # for debuggers, other sites and the next build
_TIME = (1980, 1, 1, 0, 0, 0)  # the same bytes from the same site


def with_site(files: Mapping[str, bytes], site: Path) -> dict[str, bytes]:
    """Return the files of a wheel with the site in place of its pages in Markdown.

    Args:
        files: Those of a wheel of Warpline, by name.
        site: The folder that `make site` has built.
    """
    kept = {name: data for name, data in files.items() if not name.startswith(_PAGES)}
    return {**kept, NAME: _archive(site)}


def _archive(site: Path) -> bytes:
    """Return the files of a site, compressed together: pages have much in common."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(site.rglob("*")):
            if path.is_file() and not path.name.endswith(_LEFT_OUT):
                info = zipfile.ZipInfo(path.relative_to(site).as_posix(), _TIME)
                archive.writestr(info, path.read_bytes())
    return lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME)
