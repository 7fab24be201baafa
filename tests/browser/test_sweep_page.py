"""The page of a sweep: a plot and a table, without scripts."""

from __future__ import annotations

import pytest
from support.browsing import violations

from warpline.render.sweep import page
from warpline.render.sweep.kernel_look import LOOK
from warpline.render.sweep.program_look import LOOK as PROGRAM


@pytest.fixture
def opened(viewer, tmp_path):
    kernel = {
        "short_name": "gemm",
        "duration_ns": 5e3,
        "flop_per_s": 1e12,
        "bytes_per_s": 1e11,
        "intensity": 10.0,
        "roof": "FP32",
        "roof_ratio": 0.5,
        "ceilings": {"DRAM": 3e12, "FP32": 6e13},
        "metrics": {"sm__inst_executed.sum": 12345678.0},
    }
    points = [
        {
            "values": {"N": n, "TYPE": of},
            "failure": None if n < 4 else "out of GPU memory",
            "kernels": [kernel] if n < 4 else [],
        }
        for n in (1, 2, 4)
        for of in ("fp32", "bf16")
    ]
    vary = {"N": [1, 2, 4], "TYPE": ["fp32", "bf16"]}
    path = tmp_path / "sweep.html"
    with path.open("w", encoding="utf-8") as out:
        page.write(
            {"gpu": "H100", "vary": vary, "zip": False, "points": points, "notes": []},
            out,
            LOOK,
            is_page=True,
        )
    viewer.page.goto(path.as_uri())
    return viewer


def test_axe_objects_to_nothing_and_all_points_are_there(opened):
    assert violations(opened) == []
    assert opened.page.locator("svg[role=img] circle").count() == 16
    assert opened.page.locator("tbody tr").count() == 6
    assert opened.page.locator("td:text-is('1.23457e+07')").count() == 4
    assert opened.page.locator("text=Not measured: out of GPU memory").count() == 2


def test_the_page_of_a_program_has_maps_of_two_parameters(viewer, tmp_path):
    measured = {"step_ns": 5e6, "items_per_s": 8e5, "busy_ratio": 0.9, "memory_limit_bytes": 2**36}
    names = ("predicted_memory_bytes", "predicted_error_bytes", "allocated_bytes", "finding")
    unknown = dict.fromkeys(names)
    points = [
        {
            **unknown,
            **measured,
            "values": {"batch": batch, "context": context},
            "failure": None if batch * context < 8192 else "out of GPU memory",
            "is_measured": batch * context < 8192,
            "peak_memory_bytes": batch * context << 22 if batch * context < 8192 else None,
        }
        for batch in (1, 2, 4)
        for context in (1024, 2048)
    ]
    vary = {"batch": [1, 2, 4], "context": [1024, 2048]}
    path = tmp_path / "sweep.html"
    with path.open("w", encoding="utf-8") as out:
        known = {"gpu": "H100", "vary": vary, "zip": False, "points": points, "notes": []}
        page.write(known, out, PROGRAM, is_page=True)
    viewer.page.goto(path.as_uri())
    assert violations(viewer) == []
    assert viewer.page.locator("tbody tr").count() == 6
    assert viewer.page.locator("svg text:text-is('OOM')").count() == 1  # of memory
    assert viewer.page.locator("text=Not measured: out of GPU memory").count() == 1
