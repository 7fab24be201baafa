"""The commands that docs/windows.md says work there, with everything hidden that Windows lacks."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

from cli.test_other_systems import WINDOWS

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "src" / "warpline" / "data"
REPORT = ROOT / "tests" / "data" / "ncu" / "uncoalesced.fixed.ncu-rep.xz"
SNAPSHOT = ROOT / "tests" / "data" / "memory" / "leak.pickle.xz"
HIDDEN, _, _ = WINDOWS.partition("from warpline.cli import main")
# Status 3 is a verdict: slower, or not to be captured.
COMMANDS = {
    "summary bad.sqlite": 0,
    "compare bad.sqlite fixed.sqlite": 0,
    "gate fixed.sqlite bad.sqlite": 3,
    "baseline save main bad.sqlite": 0,
    "baseline list": 0,
    "memory leak.pickle": 0,
    "graphcheck bad.sqlite": 3,
    "fleet analyze bad.sqlite": 0,
    "kernels fixed.ncu-rep": 0,
    "export -o run.warpline bad.sqlite": 0,
    "stats -r cuda_gpu_kern_sum run.warpline": 0,
    "doctor": 0,
    "translate nsys launch --session=a python train.py": 0,
    "translate nsys start -c cudaProfilerApi -o run": 0,
    "translate ncu --set full -o run python train.py": 0,
    "translate nvprof -o run.nvvp ./app": 0,
}
LINE = "mpirun -n 4 nsys profile -t cuda,nvtx -s none -o run --stats=true python train.py"
TRANSLATED = "mpirun -n 4 warpline profile -t cuda,nvtx -o run --stats=true python train.py"
REFUSED = "programs are recorded on Linux only"
RUN = """
import json, threading, urllib.request
import warpline
from warpline import api
from warpline.cli import main

for line, status in json.loads(sys.argv[1]).items():
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        found = main(line.split())
    if found != status:
        print(line, found, said.getvalue())
main(["translate", "-q", sys.argv[2]])
try:
    with warpline.profile("run.warpline"):
        print("recorded")
except warpline.WarplineError as error:
    print(error)
server = api.serve(api.open("bad.sqlite"))
threading.Thread(target=server.serve_forever, daemon=True).start()
page = urllib.request.urlopen(server.url).read()
server.shutdown()
print("served" if b"<script" in page else page[:99])
"""


def test_the_commands_work(tmp_path: Path) -> None:
    for name in ("bad", "fixed"):
        shutil.copy(RECORDINGS / f"pageable_h2d.{name}.sqlite", tmp_path / f"{name}.sqlite")
    (tmp_path / "fixed.ncu-rep").write_bytes(lzma.decompress(REPORT.read_bytes()))
    (tmp_path / "leak.pickle").write_bytes(lzma.decompress(SNAPSHOT.read_bytes()))
    words = [sys.executable, "-c", HIDDEN + RUN, json.dumps(COMMANDS), LINE]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [TRANSLATED, REFUSED, "served"], done.stderr


def test_the_page_names_these_commands() -> None:
    page = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
    works = "\n".join(line for line in page.splitlines() if "| work" in line)
    for line in COMMANDS:
        command = line.split()[0]
        assert f"`{command}" in works or command == "doctor"
    assert "`view`" in works
