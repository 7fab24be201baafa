"""Random calls of the tools of `warpline mcp`: sensible ones, and hostile ones."""

from __future__ import annotations

import lzma
import random
import shutil
from pathlib import Path
from typing import Any

from warpline.mcp.tools import TOOLS

RECORDINGS = (
    "pageable_h2d.bad.sqlite",
    "pageable_h2d.fixed.sqlite",
    "sub/kineto.json",
    "sub/target.ncu-rep",
)
_TABLES = (
    "cuda_gpu_kern_sum",
    "cuda_api_sum:x",
    "steps",
    "breakdown",
    "um_sum",
    "nvtx_sum",
    "layers",
)
_EVENTS = ("kernel", "memcpy", "range", "device", "api_call", "collective", "metric", "no_table")
_EVIL = (
    *("", "\0", "a\0b", "../../../../etc/passwd", "/etc/passwd", "~", ".", "link", "sub/out"),
    *("\ud800", "x" * 5000, "\n\nerror: a\nb", "%s%n{0}", "'; DROP TABLE kernel; --", "*" * 300),
    *(
        "-1",
        "1e400",
        "9" * 50,
        "name~",
        "name>1",
        "=",
        "id=kernel:1",
        "🦆",
        "\x1b[2J",
        "kernel:99999",
    ),
)


def prepare(folder: Path, repository: Path) -> Path:
    """Return a folder with recordings, links out of it, and what is none."""
    outside, inside = folder / "outside", folder / "recordings"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    for name in RECORDINGS[:2]:
        shutil.copy(repository / "src" / "warpline" / "data" / name, inside)
    shutil.copy(inside / RECORDINGS[0], outside / "secret.sqlite")
    data = repository / "tests" / "data"
    for packed, name in (
        ("kineto/fp32_matmul.fixed.json.xz", RECORDINGS[2]),
        ("ncu/target.ncu-rep.xz", RECORDINGS[3]),
    ):
        (inside / name).write_bytes(lzma.decompress((data / packed).read_bytes()))
    (inside / "sub" / "damaged.sqlite").write_bytes((inside / RECORDINGS[0]).read_bytes()[:50_000])
    (inside / "sub" / "empty.sqlite").touch()
    (inside / "sub" / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report")
    (inside / "link").symlink_to(outside / "secret.sqlite")
    (inside / "sub" / "out").symlink_to(outside)
    (inside / "inner.sqlite").symlink_to(inside / RECORDINGS[0])
    return inside


def call(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments of a random call; one in four is hostile in all parts."""
    tool = dice.choice(TOOLS)
    is_evil = dice.random() < 0.25
    name = tool.name if dice.random() < 0.97 else dice.choice(_EVIL)
    arguments = {}
    for key, schema in tool.arguments.items():
        if key in tool.required or dice.random() < 0.3:
            arguments[key] = _evil(dice) if is_evil else _value(dice, tool.name, key, schema)
    if dice.random() < 0.1:
        arguments["cursor"] = dice.choice(("0", "1", "3", "40", "-1", "x", 7, "99999999999999"))
    if dice.random() < 0.03:
        arguments["no_argument"] = 1
    return name, arguments


def _evil(dice: random.Random) -> Any:
    plain = dice.choice(_EVIL)
    return dice.choice(
        (plain, [plain], [plain] * 70, {plain: plain}, 1 << 70, 1.5, True, [[plain]])
    )


def _value(dice: random.Random, tool: str, key: str, schema: Any) -> Any:
    if key in {"recordings", "before", "after"}:
        word = dice.choice(RECORDINGS) if dice.random() < 0.9 else dice.choice(_EVIL)
        return dice.choice([[word]] * 6 + [word, [word, dice.choice(RECORDINGS)]])
    known = {
        "table": _EVENTS,
        "part": (*schema.get("enum", ()), "no_part"),
        "time": ("0/20ms", "10ms/", "/3000", "1s/2s", "5/1"),
        "near": ("kernel:3", "memcpy:0", "range:1", "device:0", "kernel:-1"),
        "margin_ns": (0, 1000, 10**9, -5),
        "sort": ("total_ns", "duration_ns:asc", "name", "start_ns:up"),
        "nvtx": ("step_1", "data/2", "forward@*", "no_range"),
        "steps": ("step_*", "launches", "no_steps"),
        "contains": ("sqlite", "sub", ".json"),
    }
    if key in known:
        return dice.choice(known[key])
    if key == "name":
        of_explain = ("host-sync", "kernel", "exposed", "cuda_api_sum", "idel")
        return dice.choice(of_explain if tool == "explain" else _TABLES)
    lists = {
        "where": ("instances>=2", "name~gemm", "duration_ns<10000", "bytes!=4", "total_ns>x"),
        "columns": ("name", "total_ns", "id", "duration_ns", "no_column"),
        "exclude": ("step_0", "data", "no_range"),
    }
    return [dice.choice(lists[key]) for _ in range(dice.randrange(3))]
