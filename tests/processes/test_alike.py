"""A program under ``warpline profile`` behaves as it does alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

BYTES = bytes(range(256)) * 300


def python(code):
    return [sys.executable, "-c", code]


WAYS = {
    "in order": (["true"], None),
    "a status": (["sh", "-c", "exit 77"], None),
    "a large status": (["sh", "-c", "exit 255"], None),
    "both streams": (["sh", "-c", "echo out; echo err >&2; exit 4"], None),
    "stdin to stdout": (["cat"], BYTES),
    "stdin to stderr": (["sh", "-c", "cat >&2"], BYTES),
    "stdin is not read": (["true"], BYTES),
    "no stdin": (python("import sys; print(repr(sys.stdin.read()))"), None),
    "raw bytes": (python("import os; os.write(1, bytes(range(256))); os.write(2, b'\\xff')"), None),
    "a closed reader": (["sh", "-c", "yes | head -1"], None),
    "SIGTERM": (["sh", "-c", "kill -TERM $$"], None),
    "SIGKILL": (["sh", "-c", "kill -KILL $$"], None),
    "SIGINT": (["sh", "-c", "kill -INT $$"], None),
    "SIGSEGV": (["sh", "-c", "kill -SEGV $$"], None),
    "SIGPIPE": (["sh", "-c", "kill -PIPE $$"], None),
    "SIGUSR1": (["sh", "-c", "kill -USR1 $$"], None),
    "a realtime signal": (["sh", "-c", "kill -40 $$"], None),
    "a child's signal": (["sh", "-c", "sh -c 'kill -TERM $$'; echo $?"], None),
    "a traceback": (python("1 / 0"), None),
    "a word like a flag": (["echo", "-o", "--delay", "--", "-q"], None),
    "strange words": (["printf", "%s|", "", " ", "a b", "*", "é\n", "\udcff"], None),
    "a pipeline": (["sh", "-c", "seq 1000 | sort -r | tail -1"], None),
    "background": (["sh", "-c", "(sleep 0.1; echo late) & echo early"], None),
}


@pytest.mark.parametrize("way", WAYS)
def test_streams_and_status(lab, way):
    command, given = WAYS[way]
    alone = lab.alone(command, given=given)
    ours = lab.profile(command, flags=["-q"], given=given)
    assert ours.status == alone.status
    assert ours.stdout == alone.stdout
    assert ours.stderr == alone.stderr


@pytest.mark.parametrize("ignored", [(), (signal.SIGINT, signal.SIGHUP)])
def test_surroundings(lab, ignored):
    """Also for a background job of a script, whose signals are ignored."""
    command = lab.program("mirror", "a word", "")
    trap = "trap '' " + " ".join(number.name.removeprefix("SIG") for number in ignored)
    through = ["sh", "-c", f'{trap if ignored else ":"}; "$@"', "sh"]
    alone = lab.alone([*through, *command])
    ours = lab.alone([*through, *lab.profiled(command, ["-q"])])
    assert (ours.status, ours.stderr) == (0, b"")
    assert json.loads(ours.stdout) == json.loads(alone.stdout)


def test_what_a_shell_sees(lab):
    """The status after a signal, as the shell's user reads it."""
    script = '"$@"; echo "status $?"'
    command = ["sh", "-c", "kill -TERM $$"]
    alone = lab.alone(["bash", "-c", script, "bash", *command])
    ours = lab.alone(["bash", "-c", script, "bash", *lab.profiled(command, ["-q"])])
    assert ours.stdout == alone.stdout == b"status 143\n"


def test_a_terminal_is_the_programs(lab):
    code = "import os, sys; print([os.isatty(n) for n in range(3)], os.get_terminal_size())"
    terminal = lab.on_terminal(lab.profiled(python(code), ["-q"]))
    assert terminal.end() == 0
    assert terminal.shown.startswith("[True, True, True] os.terminal_size(")


def test_an_interactive_program_has_the_terminal(lab):
    code = "name = input('name? '); print('hello', name)"
    terminal = lab.on_terminal(lab.profiled(python(code), ["-q"]))
    terminal.type("world\n")
    assert terminal.end() == 0
    assert "hello world" in terminal.shown


def test_a_closed_standard_output(lab):
    script = '"$@" >&- 2>&-; echo "status $?"'
    code = "import sys; sys.exit(3)"
    alone = lab.alone(["bash", "-c", script, "bash", *python(code)])
    ours = lab.alone(["bash", "-c", script, "bash", *lab.profiled(python(code), ["-q"])])
    assert ours.stdout == alone.stdout


def test_nobody_reads_what_we_say(lab):
    """The reader of standard error is gone: the program's status stays its own."""
    words = lab.profiled(["sh", "-c", "exit 6"])
    done = subprocess.run(
        ["bash", "-c", '{ "$@"; echo "status $?"; } 2> >(exec true)', "bash", *words],
        capture_output=True,
        check=False,
        cwd=lab.folder,
        env=lab.environment,
    )
    assert done.stdout == b"status 6\n"


COUNTING = """
import signal, sys, time
from pathlib import Path
number, ledger, came = int(sys.argv[1]), sys.argv[2], []
def handle(*_):
    came.append(1)
    Path(ledger + f".came {len(came)}").touch()
signal.signal(number, handle)
Path(ledger + ".ready").touch()
start = time.monotonic()
while not came and time.monotonic() < start + 30:
    time.sleep(0.01)
time.sleep(0.8)  # a second one may come
print(len(came))
"""


@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]
)
def test_a_signal_comes_once(lab, number, to_all):
    """Sent to us or to our whole group: a handler that cleans up is not disturbed by a second."""
    command = [*python(COUNTING), str(int(number)), str(lab.ledger)]
    launcher = lab.start(lab.profiled(command, ["-q"]))
    lab.wait_for("ready")
    if to_all:
        os.kill(launcher.pid, signal.SIGSTOP)  # so that the program has it well before us
        os.killpg(launcher.pid, number)
        lab.wait_for("came 1")
        os.kill(launcher.pid, signal.SIGCONT)
    else:
        os.kill(launcher.pid, number)
    run = lab.end(launcher)
    assert run.stdout == b"1\n"
    assert run.status == 0
