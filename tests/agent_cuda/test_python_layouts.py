"""Where the agent reads Python's structures, beside Python's own headers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from agent_cuda.conftest import FakeCuda
from agent_cuda.pythons import VERSIONS, interpreter

SOURCE = Path(__file__).parent / "programs" / "python_offsets.c"


def layouts(cuda: FakeCuda) -> dict[int, dict[str, int]]:
    program = cuda.program.parent / "python_layouts"
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["minor"]: line for line in lines}


def test_the_supported_versions_have_a_layout(cuda):
    assert [f"3.{minor}" for minor in layouts(cuda)] == list(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_layouts_are_those_of_the_headers(cuda, tmp_path, version):
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    found = subprocess.run(
        [interpreter(version), "-c", code], check=True, capture_output=True, text=True
    )
    headers = Path(found.stdout.strip())
    if not (headers / "internal").exists():
        pytest.skip(f"the internal headers of Python {version} are not installed")
    program = tmp_path / "offsets"
    folders = [f"-I{folder}" for folder in (headers, headers / "internal", headers.parent)]
    build = ["cc", "-w", *folders, SOURCE, "-o", program]
    subprocess.run(build, check=True, capture_output=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    expected = json.loads(done.stdout)
    assert layouts(cuda)[expected["minor"]] == expected
