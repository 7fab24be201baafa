"""Machines that say what Warpline does not: one line of error, nothing written elsewhere."""

from __future__ import annotations

import sys

import pytest

from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.launch import Talk, UnfinishedError
from warpline.errors import HostError, WarplineError
from warpline.hosts import Place
from warpline.remote import copies, tunnel
from warpline.remote.bringing import bring_home
from warpline.remote.ssh import Connection

# In the place of ssh: it reads the header of the request, then says what the test wants.
FAR = """\
import json, re, sys
words = sys.argv[1:]
if "-O" in words:
    sys.exit(255)
size = int(re.search(r"read\\((\\d+)\\)", words[-1])[1])
sys.stdin.buffer.read(size)
header = json.loads(sys.stdin.buffer.readline())
def say(text):
    sys.stdout.buffer.write(text.encode() if isinstance(text, str) else text)
    sys.stdout.buffer.flush()
def tell(**facts):
    say(header["token"] + " " + json.dumps(facts) + "\\n")
def hear():
    return sys.stdin.buffer.readline()
"""
FILE = 'tell(path="/home/me/run.warpline", size=4, mtime_ns=1)\nhear()\n'
GOOD = 'tell(size=4)\nsay(b"1234")\n'


@pytest.fixture
def far(tmp_path, monkeypatch):
    """Let a machine do something."""

    def be(code: str) -> Connection:
        program = tmp_path / "far.py"
        program.write_text(FAR + code)
        monkeypatch.setenv("WARPLINE_SSH", f"'{sys.executable}' -IS '{program}'")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return Connection("gpu1")

    return be


PLACE = Place("gpu1", "run.warpline")


def test_a_good_machine_sends_the_file(far):
    digest = "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4"
    with far(f"say('Welcome\\n' * 1000)\n{FILE}{GOOD}tell(hash={digest!r})") as connection:
        assert copies.copy_of(PLACE, connection).path.read_bytes() == b"1234"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit(255)", "no connection to gpu1"),
        ("sys.exit(97)", "gpu1: no Python 3.11 or later"),
        ("sys.exit(0)", "gpu1: unexpected answer"),
        ("say(b'\\xff\\0' * 3000000)", "gpu1: unexpected answer"),
        ("say('x\\n' * 3000000)", "gpu1: unexpected answer"),
        ("while True: say('x' * 65536 + '\\n')", "gpu1: unexpected answer"),
        ("say(header['token'] + ' [1]\\n')", "gpu1: unexpected answer"),
        ("say(header['token'] + ' {\\n')", "gpu1: unexpected answer"),
        ("tell(error='no such file', hint=None)", "gpu1: no such file"),
        ("tell()", "gpu1: unexpected answer"),
        ("tell(path='/', size=4, mtime_ns=1)", "gpu1:run.warpline has no name"),
        ("tell(path='/home/..', size=4, mtime_ns=1)", "gpu1:run.warpline has no name"),
        ("tell(path=7, size='x', mtime_ns=1)", "gpu1: unexpected answer"),
        (
            f"{FILE}tell(size=4)\nsay(b'12')",
            "gpu1: the connection was lost after 2 B of 4 B",
        ),
        (f"{FILE}tell(size=-1)", "gpu1: unexpected answer"),
        (f"{FILE}tell(size=[])", "gpu1: unexpected answer"),
        (f"{FILE}{GOOD}tell(hash='0')", "run.warpline did not arrive as it was sent"),
        (f"{FILE}{GOOD}", "gpu1: unexpected answer"),
    ],
)
def test_what_is_not_a_file_is_an_error(far, tmp_path, code, said):
    with pytest.raises(WarplineError) as caught, far(code) as connection:
        copies.copy_of(PLACE, connection)
    assert caught.value.message == said
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "url",
    [
        "http://attacker.example/x/",
        "http://127.0.0.1:80@attacker.example/x/",
        "file:///etc/passwd",
        "http://127.0.0.1:99999999/x/",
        'http://127.0.0.1:80/"><script>/',
        None,
        7,
    ],
)
def test_only_the_viewers_url_is_opened(far, url):
    with (
        pytest.raises(HostError),
        far(f"tell(url={url!r})") as connection,
        tunnel.opened(PLACE, connection, 0, []),
    ):
        pytest.fail("it was opened")


def test_a_name_with_the_length_of_a_path_is_an_error(far):
    name = "x" * 1000
    code = f"tell(path='/{name}', size=4, mtime_ns=1)\nhear()\n{GOOD}"
    with pytest.raises(WarplineError), far(code) as connection:
        copies.copy_of(PLACE, connection)


@pytest.mark.parametrize(
    "facts",
    [
        {"outcome": {"finished": {}, "ending": {"status": 0}}, "files": [["x", 1]]},
        {"outcome": {"finished": {}, "ending": {"x": 0}}, "files": []},
        {"outcome": [], "running": False},
        {"outcome": {"finished": {}, "host": "h", "pid": "1", "variables": {}}, "files": 7},
        {},
    ],
)
def test_an_odd_outcome_leaves_the_recording_there(far, tmp_path, monkeypatch, facts):
    monkeypatch.chdir(tmp_path)
    settings = CaptureSettings(host="gpu1", output="run")
    talk = Talk(warn=print, note=print, progress=print)
    before = sorted(tmp_path.iterdir())
    connection = far(f"tell(**{facts!r})")
    with pytest.raises(UnfinishedError) as caught, connection:
        bring_home(connection, "/tmp/job", settings, talk)
    assert caught.value.message.startswith("gpu1: unexpected answer")
    assert "scp 'gpu1:/tmp/job/*.warpline' . copies the recording" in (caught.value.hint or "")
    assert [p.name for p in tmp_path.iterdir() if p not in before] == ["far.py"]


@pytest.mark.parametrize("pattern", ["in/%h", "in/%q{NAME}"])
def test_parts_of_names_that_a_machine_chooses_lead_nowhere_else(
    far, tmp_path, monkeypatch, pattern
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    settings = CaptureSettings(host="gpu1", output=pattern)
    outcome = {"finished": {}, "pid": 1, "reason": None, "ending": {"status": 0}}
    outcome |= {"host": "../x", "variables": {"NAME": "/../x"}}
    digest = "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4"
    facts = {"outcome": outcome, "running": False, "files": [["recording.warpline", 4]]}
    code = f"tell(**{facts!r})\nhear()\n{GOOD}tell(hash={digest!r})\nhear()\ntell(kept=None)"
    with far(code) as connection:
        found = bring_home(connection, "/tmp/job", settings, Talk(print, print, print))
    assert found.output.parent == tmp_path / "in"
    assert found.output.name.endswith(".._x.warpline")
    assert found.output.read_bytes() == b"1234"
