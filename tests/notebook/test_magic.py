"""``%%warpline`` in IPython: cells that record themselves, and what is shown of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import recording

import warpline
from warpline.derived.time_parts import TimePart
from warpline.notebook.progress_line import in_words

SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()

def run(text):
    print("IN", text.partition(chr(10))[0], flush=True)
    return shell.run_cell(text)

run("%load_ext warpline")
run("import warpline; count = 9")
"""
STEPS = """
for _ in range(count):
    with warpline.annotate("step"):
        pass
after = count + 1
"""


@pytest.fixture
def cells(tmp_path):
    """Return a function that runs Python code in a process with a shell, and what it printed."""
    pytest.importorskip("IPython")
    recording.skip_unless_possible()

    def run(code: str) -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", SHELL + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")},
            timeout=120,
        )
        parts = (part.partition("\n") for part in done.stdout.split("IN "))
        return {name: text for name, _, text in parts}

    return run


def test_a_cell_records_itself_with_the_variables_of_the_notebook(cells, tmp_path):
    shown = cells(f"""
run("%%warpline run -o kept" + {STEPS!r})
run("print(after, run['range'].height)")
html = shell.display_formatter.format(shell.user_ns["run"])[0]["text/html"]
print("step" in html, "<table>" in html)
run("%%warpline empty" + chr(10) + "'a value'")
run("%%warpline error" + chr(10) + "1 / 0")
run("%%warpline --stepss x" + chr(10) + "after = 0")
run("print('at the end', after)")
""")
    assert f"wrote {tmp_path / 'kept.warpline'}" in shown["%%warpline run -o kept"]
    assert "Document of kept.warpline" in shown["%%warpline run -o kept"]
    assert shown["print(after, run['range'].height)"].split() == ["10", "9", "True", "True"]
    assert "'a value'" in shown["%%warpline empty"]
    assert "Nothing was recorded: the cell called neither CUDA" in shown["%%warpline empty"]
    assert "ZeroDivisionError" in shown["%%warpline error"]
    assert "UsageError: unrecognized arguments: --stepss" in shown["%%warpline --stepss x"]
    assert "Traceback" not in shown["%%warpline --stepss x"]
    assert shown["print('at the end', after)"].strip() == "at the end 10"
    assert warpline.open(tmp_path / "kept.warpline")["range"].height == 9


@pytest.mark.slow
def test_progress_and_a_cell_as_a_program(cells):
    shown = cells("""
shell.kernel = None  # as in a notebook
run("%%warpline" + '''
import time
for _ in range(400):
    with warpline.annotate("step"): time.sleep(0.01)
''')
del shell.kernel
run("%%warpline program --process" + '''
import time, sys
print("hello", "warpline" in sys.modules)
end = time.monotonic() + 1
while time.monotonic() < end: pass
''')
run("print(program['range'] is not None, len(program))")
""")
    assert "recording, " in shown["%%warpline"]
    assert " steps of 1" in shown["%%warpline"]
    assert "hello False" in shown["%%warpline program --process"]
    assert "True" in shown["print(program['range'] is not None, len(program))"]


def test_a_line_of_top_in_words():
    busy = next(part.label for part in TimePart if part.is_busy)
    update = {
        "now_ns": 12_300_000_000,
        "second": {
            "start_ns": 0,
            "end_ns": 1000,
            "gpus": [{"gpu": 0, "busy_ns": 870}],
        },
        "steps": {"ranks": [{"count": 340, "median_ns": 10_100_000}, {"count": 0}]},
        "times": {
            "start_ns": 0,
            "end_ns": 1000,
            "ranks": [{"parts_ns": {busy: 870, "launch-bound": 90, "host-sync": 40, "tail": 5}}],
        },
        "lost_events": 2,
    }
    assert in_words(update) == (
        "recording, 12.3 s; GPU 0 87.0% busy; 340 steps of 10.1 ms; idle: launch-bound 9.0%;"
        " idle: host-sync 4.0%; 2 events lost"
    )
    empty = {"now_ns": 0, "second": None, "times": None, "steps": None, "lost_events": 0}
    assert in_words(empty) == "recording, 0 ns"
