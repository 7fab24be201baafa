"""The process that reads the state of GPUs and machine: what it writes, and whom it harms."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from capture.nvml_stand_in import stand_in
from support.launching import environment, open_files, until, with_open

from warpline.capture.session.control import FILE_NAME, ControlFile, ControlPage, RangeMode, State
from warpline.capture.session.readings import (
    UNKNOWN,
    IsRecording,
    Readings,
    ReadingsError,
    ReadingsWriter,
    path_of,
    read_readings,
)
from warpline.capture.session.recording_state import RecordingState

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# A launcher: it starts the collectors, says so, and closes them when a line comes.
LAUNCHER = """
import os, sys
from pathlib import Path
from warpline.capture.collectors.runner import Collectors
collectors = Collectors(float(sys.argv[2]))
collectors.start(Path(sys.argv[1]), os.getpid(), os.environ)
print("started", flush=True)
sys.stdin.readline()
collectors.close()
print("closed", flush=True)
sys.stdin.readline()
"""


class Launcher:
    """A process with collectors for a session in a directory."""

    def __init__(self, folder: Path, hz: float, *, library: Path | None, **more: str) -> None:
        self.folder = folder / "x.raw"
        self.folder.mkdir()
        self.control = ControlFile.create(self.folder)
        if library is not None:
            more["LD_LIBRARY_PATH"] = str(library.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(self.folder), str(hz)],
            env=environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._says("started")

    def close(self) -> None:
        """Let it close the collectors, while it goes on."""
        self._go_on()
        self._says("closed")

    def end(self) -> None:
        """Let it end."""
        if self.process.poll() is None:
            self._go_on()
            self._go_on()
        self.process.wait()

    def collectors(self) -> list[int]:
        """Return the processes that have a file of readings open."""
        return with_open(*self.folder.glob("*.readings"))

    def readings(self, table: str) -> Readings | None:
        """Return what was written."""
        return read_readings(self.folder, table)

    def rows(self, table: str) -> int:
        """Return how many rows were written."""
        found = self.readings(table)
        return 0 if found is None else found.rows

    def _go_on(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def _says(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"


Launch = Callable[..., Launcher]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Return a function that starts a launcher; all are ended after the test."""
    launched: list[Launcher] = []

    def launch_it(hz: float = 50, *, library: Path | None = None, **more: object) -> Launcher:
        variables = {f"FAKE_NVML_{name}": str(value) for name, value in more.items()}
        folder = tmp_path / f"{len(launched)}"
        folder.mkdir()
        launched.append(Launcher(folder, hz, library=library, **variables))
        return launched[-1]

    yield launch_it
    for each in launched:
        each.process.kill()
        each.process.communicate()


def test_readings_go_on_until_the_launcher_closes_them(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(library=stand_in(tmp_path), XID=79)
    until(lambda: launcher.rows("gpu_health") >= 6)
    launcher.close()
    until(lambda: not launcher.collectors())
    assert launcher.process.poll() is None
    gpus, errors = launcher.readings("gpu_health"), launcher.readings("gpu_error")
    assert gpus is not None
    assert errors is not None
    columns = gpus.columns
    assert [*columns["gpu"][:4]] == [0, 1, 0, 1]
    assert all(s <= e for s, e in zip(columns["start_ns"], columns["end_ns"], strict=True))
    assert [*columns["start_ns"]] == sorted(columns["start_ns"])
    clocks = [*columns["sm_clock_hz"][::2]]
    assert clocks[:3] == [1_970_000_000, 1_960_000_000, 1_950_000_000]
    # What costs more is read rarely, but at the beginning and the end.
    for name in ("nvlinks", "energy_mj"):
        values = columns[name][::2]
        assert UNKNOWN not in (values[0], values[-1])
        assert UNKNOWN in [*values]
    assert [*errors.columns["xid"]] == [79]
    host = launcher.readings("host_health")
    assert host is not None
    assert [*host.columns["pid"][:2]] == [0, launcher.process.pid]


def test_without_nvml_the_machine_is_read(launch: Launch) -> None:
    launcher = launch()
    until(lambda: launcher.rows("host_health") >= 2)
    launcher.close()
    until(lambda: not launcher.collectors())
    assert launcher.readings("gpu_health") is None
    assert launcher.readings("gpu_error") is None


def test_a_killed_launcher_leaves_no_process(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(library=stand_in(tmp_path))
    until(lambda: launcher.rows("gpu_health"))
    launcher.process.kill()
    until(lambda: not launcher.collectors())
    found = launcher.readings("gpu_health")
    assert found is not None
    assert not found.is_cut


def test_nobody_waits_for_a_driver_that_blocks(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(library=stand_in(tmp_path), BLOCKS=3_600_000)
    until(lambda: launcher.rows("host_health"))
    launcher.close()
    launcher.end()  # it has closed the collectors and ended meanwhile
    until(lambda: not launcher.collectors())


def test_a_directory_that_is_deleted_stays_deleted(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(library=stand_in(tmp_path))
    until(lambda: launcher.rows("gpu_health"))
    for path in launcher.folder.iterdir():
        path.unlink()
    launcher.folder.rmdir()
    launcher.close()
    launcher.end()
    assert not launcher.folder.exists()


def test_it_is_no_child_and_in_no_group_of_the_launchers(launch: Launch) -> None:
    launcher = launch()
    until(lambda: launcher.rows("host_health"))
    (pid,) = launcher.collectors()
    assert os.getsid(pid) == pid
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert parent != launcher.process.pid
    files = open_files(pid)
    assert not [name for name in files if name.startswith("pipe:")]


def test_whether_recording_is_on(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(library=stand_in(tmp_path))
    until(lambda: launcher.rows("gpu_health") >= 2)
    launcher.control.state = State.STOPPED
    before = launcher.rows("gpu_health")
    until(lambda: launcher.rows("gpu_health") >= before + 6)
    found = launcher.readings("gpu_health")
    assert found is not None
    flags = [*found.columns["is_recording"]]
    assert (flags[0], flags[-1]) == (1, 0)
    assert flags == sorted(flags, reverse=True)


@pytest.mark.parametrize(
    ("mode", "state", "is_open", "expected"),
    [
        (RangeMode.NONE, State.WAITING, False, [IsRecording.NO] * 2),
        (RangeMode.NONE, State.RECORDING, False, [IsRecording.YES] * 2),
        (RangeMode.NVTX, State.RECORDING, False, [IsRecording.WAS, IsRecording.NO]),
        (RangeMode.NVTX, State.RECORDING, True, [IsRecording.YES] * 2),
        (RangeMode.NVTX, State.STOPPED, False, [IsRecording.WAS, IsRecording.NO]),
        (RangeMode.STEPS, State.TIME_WINDOW, False, [IsRecording.YES] * 2),
    ],
)
def test_recording_by_the_control_page(
    tmp_path: Path, mode: RangeMode, state: State, is_open: bool, expected: list[IsRecording]
) -> None:
    control = ControlFile.create(tmp_path, state=state, mode=mode)
    recording = RecordingState(control)
    page = ControlPage.from_buffer_copy((tmp_path / FILE_NAME).read_bytes())
    page.windows_done = int(mode is not RangeMode.NONE)
    page.switch_word |= int(is_open) << 32
    with (tmp_path / FILE_NAME).open("r+b") as file:  # the same page, as an agent changes it
        file.write(bytes(page))
    assert [recording.look() for _ in range(2)] == expected


def open_for_readings(folder: Path, table: str) -> int:
    return os.open(path_of(folder, table), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def test_a_cut_row_is_left_out(tmp_path: Path) -> None:
    writer = ReadingsWriter(open_for_readings(tmp_path, "gpu_error"), "gpu_error", {"period_ns": 5})
    writer.write([{"gpu": 1, "time_ns": 20, "xid": 79}, {"gpu": 0, "time_ns": None}])
    path = path_of(tmp_path, "gpu_error")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    found = read_readings(tmp_path, "gpu_error")
    assert found is not None
    assert (found.rows, found.is_cut, found.facts["period_ns"]) == (1, True, 5)
    assert {name: [*values] for name, values in found.columns.items()} == {
        "gpu": [1],
        "time_ns": [20],
        "xid": [79],
    }
    path.write_bytes(whole)
    found = read_readings(tmp_path, "gpu_error")
    assert found is not None
    assert [*found.columns["time_ns"]] == [20, UNKNOWN]


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"{}\n",
        b"[1]\n",
        b"no line",
        b'{"version": 2, "columns": ["gpu", "time_ns", "xid"]}\n',
        b'{"version": 1, "columns": ["gpu", "xid"]}\n',
        b'{"version": 1, "columns": 7}\n',
        b'{"version": 1, "columns": [[], {}]}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n" + bytes(64),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    path_of(tmp_path, "gpu_error").write_bytes(data)
    with pytest.raises(ReadingsError):
        read_readings(tmp_path, "gpu_error")


def test_a_full_disk_ends_a_file_after_whole_rows(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from warpline.capture.session.readings import ReadingsWriter, path_of
path = path_of(Path(sys.argv[1]), "gpu_error")
writer = ReadingsWriter(os.open(path, os.O_WRONLY | os.O_CREAT), "gpu_error", {})
for row in range(100):
    writer.write([{"gpu": 0, "time_ns": row, "xid": 1}])
"""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=environment(),
        preexec_fn=limit,
        check=True,
    )
    found = read_readings(tmp_path, "gpu_error")
    assert found is not None
    assert [*found.columns["time_ns"]] == [*range(found.rows)]
    assert 10 < found.rows < 21
