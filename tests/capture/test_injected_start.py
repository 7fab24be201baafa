"""Python programs load the part of Warpline that names PyTorch's work, and do not notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest
from support import launching

import warpline
from warpline.capture.session import pytorch
from warpline.injected import watch_import

SHOW = """
import json, os, sys
cached = [place for place in sys.path_importer_cache if place.endswith("startup")]
modules = [name in sys.modules for name in ("sitecustomize", "_warpline_injected")]
print(json.dumps([sys.path[1:], modules[0], cached,
    os.environ.get("PYTHONPATH"), getattr(sys, "ran", None), modules[1]]))
"""


@pytest.fixture
def session(tmp_path):
    """The folder of a session."""
    folder = tmp_path / "session"
    (folder / pytorch.FOLDER).mkdir(parents=True)
    return folder


def run(code, session=None, *flags, **variables):
    """Run Python without Warpline, or with what --pytorch=all adds; return what it prints."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment |= variables
    if session is not None:
        environment |= pytorch.python_variables(("modules",), environment)
        environment |= {"WARPLINE_SESSION": str(session), "NVTX_INJECTION64_PATH": "/no/agent.so"}
    command = [sys.executable, *flags, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def lines(session, name):
    """Return the lines that processes wrote to their files of a name."""
    files = sorted((session / pytorch.FOLDER).glob(f"*-{name}"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("before", [None, "", "/some/where", "/a:/b", ":/a"])
def test_the_path_is_as_without_it(before, session):
    variables = {} if before is None else {"PYTHONPATH": before}
    plain, recorded = run(SHOW, **variables), run(SHOW, session, **variables)
    startup = str(pytorch.startup_folder())
    assert recorded.pop(3) == (f"{startup}:{before}" if before else startup)
    plain.pop(3)
    assert recorded.pop() is True
    assert plain.pop() is False
    assert recorded == plain
    assert [line["python"] for line in lines(session, "process.jsonl")]


def test_the_next_sitecustomize_runs(session, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.ran = __name__, __file__")
    variables = {"PYTHONPATH": str(tmp_path)}
    plain, recorded = run(SHOW, **variables), run(SHOW, session, **variables)
    assert recorded[4] == plain[4] == ["sitecustomize", str(tmp_path / "sitecustomize.py")]
    assert recorded[:3] == plain[:3]


def test_errors_of_the_next_sitecustomize_are_reported_as_without_it(session, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    errors = []
    for more in ({}, pytorch.python_variables(("modules",), environment)):
        command = [sys.executable, "-c", ""]
        environment |= {**more, "WARPLINE_SESSION": str(session)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        errors.append(done.stderr)
    assert errors[0] == errors[1]
    assert "ValueError: mine" in errors[0]


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_python_that_is_isolated_is_left_alone(flag, session):
    assert run(SHOW, session, flag)[-1] is False
    assert lines(session, "process.jsonl") == []


def test_children_are_recorded_too(session):
    child = [sys.executable, "-c", "print(0)"]
    run(f"import subprocess; subprocess.run({child!r})", session)
    assert len(lines(session, "process.jsonl")) == 2


def test_nothing_happens_once_the_session_is_gone(session):
    (session / pytorch.FOLDER).rmdir()
    session.rmdir()
    assert run(SHOW, session)[0] == run(SHOW)[0]
    assert not session.exists()


TORCH = """
import json, sys
finders = list(sys.meta_path)
import importlib.util
spec = importlib.util.find_spec("torch")
import torch
print(json.dumps([torch.value, vars(torch.__loader__) == vars(torch.__spec__.loader),
    "exec_module" in vars(torch.__loader__), len(sys.meta_path)]))
"""


def test_an_import_that_is_waited_for_is_as_without_it(session, tmp_path):
    (tmp_path / "torch.py").write_text("value = __name__")
    plain = run(TORCH, PYTHONPATH=str(tmp_path))
    assert run(TORCH, session, PYTHONPATH=str(tmp_path)) == plain
    assert plain[:3] == ["torch", True, False]


def test_what_cannot_be_started_is_a_note(session, tmp_path):
    (tmp_path / "torch.py").write_text("value = 1")
    run("import torch; print(1)", session, PYTHONPATH=str(tmp_path))
    (note,) = lines(session, "notes.jsonl")
    assert note.startswith("--pytorch: agent stopped: OSError: /no/agent.so")


def test_an_import_that_fails_may_be_tried_again(tmp_path, monkeypatch):
    (tmp_path / "watched.py").write_text(
        "import os\nif not os.environ.get('OK'): raise OSError('x')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    calls = []
    watch_import.call_after_import("watched", lambda: calls.append(1))
    with pytest.raises(OSError, match="x"):
        __import__("watched")
    assert calls == []
    monkeypatch.setenv("OK", "1")
    __import__("watched")
    assert calls == [1]
    assert not any(isinstance(finder, watch_import._Finder) for finder in sys.meta_path)
    watch_import.call_after_import("watched", lambda: calls.append(2))
    assert calls == [1, 2]


def test_what_is_forgotten_is_not_called(tmp_path, monkeypatch):
    (tmp_path / "unwatched.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    calls = []

    def called():
        calls.append(1)

    watch_import.call_after_import("unwatched", called)
    watch_import.forget(called)
    __import__("unwatched")
    assert calls == []


def profile(folder, words, code, *flags):
    """Record a program, by Python with these flags, and return the warnings of its recording."""
    launching.needs_agent()
    python, program = launching.python(folder, textwrap.dedent(code))
    command = ["-o", "run", "--no-summary", *words, "--", python, *flags, program]
    ended = launching.profile(folder, *command)
    assert ended.status == 0, ended.err
    return warpline.open(folder / "run.warpline").meta.warnings


ANNOTATED = "import warpline\nwith warpline.annotate('work'): pass\n"


def test_the_recording_says_that_no_python_ran(tmp_path):
    (warning,) = profile(tmp_path, ["--pytorch=all"], "", "-I")
    assert warning.startswith("--pytorch recorded nothing: no Python that reads PYTHONPATH")


def test_the_recording_says_that_no_torch_was_imported(tmp_path):
    (warning,) = profile(tmp_path, ["--pytorch=modules"], ANNOTATED)
    assert warning == "--pytorch recorded nothing: no recorded Python program imported torch"


def test_the_recording_says_why_a_program_with_torch_was_not_recorded(tmp_path):
    (tmp_path / "torch.py").write_text("")
    code = f"""
import _warpline_injected.context as context
class Old:
    def __init__(self, file):
        raise AttributeError("an older agent")
context.Agent = Old
import sys; sys.path.insert(0, {str(tmp_path)!r})
{ANNOTATED}
import torch
"""
    (warning,) = profile(tmp_path, ["--pytorch=modules"], code)
    assert warning == "--pytorch: agent stopped: AttributeError: an older agent"


def test_without_the_flag_nothing_is_in_the_program(tmp_path):
    code = ANNOTATED + "import os; assert 'startup' not in os.environ['PYTHONPATH']"
    assert list(profile(tmp_path, [], code)) == []
