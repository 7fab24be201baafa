"""What is inside a wheel besides Warpline's own code, and its licenses: a CycloneDX document."""

from __future__ import annotations

import hashlib
import json
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
OWN_LICENSE = "Apache-2.0"
_LLVM = "Apache-2.0 WITH LLVM-exception"
_GLIBC = "LGPL-2.1-or-later, with permission to link the compiled files with other programs"
_VIEWER = "warpline/viewer/dist/"
_NATIVE = ".so"
_SITE = "warpline/site.zip.xz"
# Scripts and styles of the documentation site: package, license, text. Their versions are pinned.
_OF_THE_SITE = (
    ("accessible-pygments", "BSD-3-Clause", "accessible-pygments.txt"),
    ("furo", "MIT", "furo.txt"),
    ("pygments", "BSD-2-Clause", "pygments.txt"),
    ("sphinx", "BSD-2-Clause", "sphinx.txt"),
    ("sphinx-basic-ng", "MIT", "sphinx-basic-ng.txt"),
)
SNOWBALL = "3.0.1"  # Sphinx has its scripts
_GUMSHOE = "5.1.2"  # furo has it, with its notice


@dataclass(frozen=True)
class Component:
    """A part that others wrote.

    Attributes:
        name: As in its registry.
        version: Its version.
        license: An SPDX expression, or words where there is none.
        purl: Its package URL; empty if it is in no registry.
        text: The file in `release/licenses`; empty if its license asks for no copy.
        where: What it is in.
    """

    name: str
    version: str
    license: str
    purl: str
    text: str
    where: str


def inside(names: set[str], zig: tuple[str, str] | None) -> list[Component]:
    """Return the components in a wheel.

    Args:
        names: The names of its files.
        zig: The versions of zig and of its clang, which native libraries were built with.
    """
    found: list[Component] = []
    if any(name.startswith(_VIEWER) for name in names):
        found += _of_the_viewer()
    if _SITE in names:
        found += _of_the_site()
    if any(name.endswith(_NATIVE) for name in names):
        assert zig is not None  # published libraries are built so
        found += _of_the_runtime(*zig)
    return found


def _of_the_viewer() -> Iterator[Component]:
    """Yield the npm packages that the viewer's build has: those that are not for work on it."""
    lock = json.loads((_ROOT / "viewer" / "package-lock.json").read_text(encoding="utf-8"))
    for place, facts in sorted(lock["packages"].items()):
        if place and not facts.get("dev"):
            name = place.rpartition("node_modules/")[2]
            purl = f"pkg:npm/{name.replace('@', '%40')}@{facts['version']}"
            text = "preact.txt" if name == "preact" else "preact-signals.txt"
            where = "the viewer's scripts"
            yield Component(name, facts["version"], facts["license"], purl, text, where)


def _of_the_site() -> Iterator[Component]:
    """Yield what the documentation site has of the tools that build it."""
    where = "the documentation site"
    config = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = config["project"]["optional-dependencies"]["docs"]
    versions = dict(pin.split("==") for pin in pins)
    for name, license_, text in _OF_THE_SITE:
        version = versions[name]
        yield Component(name, version, license_, f"pkg:pypi/{name}@{version}", text, where)
    yield Component("Snowball", SNOWBALL, "BSD-3-Clause", "", "snowball.txt", where)
    purl = f"pkg:npm/gumshoejs@{_GUMSHOE}"
    yield Component("gumshoejs", _GUMSHOE, "MIT", purl, "gumshoejs.txt", where)


def _of_the_runtime(zig: str, llvm: str) -> Iterator[Component]:
    where = "native libraries"
    for name in ("libc++", "libc++abi", "libunwind"):
        yield Component(name, llvm, _LLVM, "", "", where)
    yield Component("zig compiler_rt", zig, "MIT", f"pkg:pypi/ziglang@{zig}", "zig.txt", where)
    yield Component("glibc start files", "2.28", _GLIBC, "", "", where)


def license_of(parts: list[Component]) -> str:
    """Return the SPDX expression of a wheel. Every program on Linux has the parts of glibc."""
    return " AND ".join(sorted({OWN_LICENSE, *(p.license for p in parts if p.license != _GLIBC)}))


def texts(parts: list[Component]) -> dict[str, bytes]:
    """Return license texts by file name."""
    names = sorted({part.text for part in parts if part.text})
    return {name: (_ROOT / "release" / "licenses" / name).read_bytes() for name in names}


def document(name: str, version: str, parts: list[Component], needs: list[str]) -> bytes:
    """Return a CycloneDX document in JSON, without a time, so that builds can be repeated.

    Args:
        name: The package.
        version: Its version.
        parts: What is inside.
        needs: Names of packages that it requires and that are not inside.
    """
    own = f"pkg:pypi/{name}@{version}"
    components = [_listed(part) for part in parts]
    content = json.dumps([own, components, needs]).encode()
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(hashlib.sha256(content).hexdigest()[:32])}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": OWN_LICENSE}}],
            }
        },
        "components": [
            *components,
            *(
                {
                    "type": "library",
                    "bom-ref": f"pkg:pypi/{each}",
                    "name": each,
                    "purl": f"pkg:pypi/{each}",
                    "scope": "excluded",
                }
                for each in needs
            ),
        ],
        "dependencies": [
            {
                "ref": own,
                "dependsOn": [
                    *(item["bom-ref"] for item in components),
                    *(f"pkg:pypi/{each}" for each in needs),
                ],
            }
        ],
    }
    return (json.dumps(whole, indent=2, sort_keys=True) + "\n").encode()


def _listed(part: Component) -> dict[str, Any]:
    license_: dict[str, Any] = {"expression": part.license}
    if part.license == _GLIBC:
        license_ = {"license": {"name": part.license}}
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.purl or f"{part.name}@{part.version}",
        "name": part.name,
        "version": part.version,
        "description": f"inside {part.where}",
        "licenses": [license_],
    }
    return {**found, "purl": part.purl} if part.purl else found
