"""The state of the machine and of a program's processes over time, from /proc and /sys."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

MOST_PROCESSES = 64

_ROOM = 1 << 18  # bytes of a file
_KHZ = 1000
_KIB = 1024
_SECTOR = 512
_RDMA_WORD = 4  # port counters of InfiniBand count words of 4 bytes
_MOST_CLOCKS = 8  # cores whose clock is read: each reading interrupts the core
_MOST_PORTS = 32
# Fields of /proc/PID/stat after the name.
_MINOR_FAULTS, _MAJOR_FAULTS, _USER, _SYSTEM, _PAGES = 7, 9, 11, 12, 21
# CPU time in the first line of /proc/stat: user, nice, system, irq, softirq, steal. Guests' time is
# part of user.
_BUSY = (1, 2, 3, 6, 7, 8)
_READ, _WRITTEN = 5, 9  # sectors, of the words in a line of /proc/diskstats
_RECEIVED, _SENT = 0, 8  # bytes, of the words after the name in /proc/net/dev

Row = dict[str, int | None]


class _File:
    """A file that is read again and again, kept open; empty if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return the content now."""
        if self._descriptor is None:
            return b""
        try:
            return os.pread(self._descriptor, _ROOM, 0)
        except OSError:
            return b""

    def number(self) -> int | None:
        """Return the content as a number."""
        return _whole(self.read())


class HostHealth:
    """Reads the state of the machine.

    Args:
        program: The program's pid: its CPU affinity and control group limit the CPU cores.
        root: Root of the file system.
    """

    def __init__(self, program: int, root: Path = Path("/")) -> None:
        self._program = program
        self._tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._stat = _File(root / "proc/stat")
        self._memory = _File(root / "proc/meminfo")
        self._network = _File(root / "proc/net/dev")
        self._disks = _File(root / "proc/diskstats")
        self._clocks = [_File(path) for path in _some(_clock_files(root), _MOST_CLOCKS)]
        self._interfaces = _physical(root / "sys/class/net")
        self._disk_names = _physical(root / "sys/block")
        ports = _some(sorted(root.glob("sys/class/infiniband/*/ports/*/counters")), _MOST_PORTS)
        self._rdma = {
            name: [_File(port / counter) for port in ports]
            for name, counter in (("received", "port_rcv_data"), ("sent", "port_xmit_data"))
        }
        self._quota_cores, self._throttled = _cpu_limit(root, program)
        self._usable_millicores: int | None = None

    def read(self) -> Row:
        """Return the state of the machine."""
        row: Row = {"pid": 0, "start_ns": time.monotonic_ns()}
        row |= self._cpu() | self._used_memory() | self._disk_bytes() | self._network_bytes()
        for name, files in self._rdma.items():
            found = [number for number in (file.number() for file in files) if number is not None]
            row[f"rdma_{name}_bytes"] = sum(found) * _RDMA_WORD if found else None
        return row | {"end_ns": time.monotonic_ns()}

    def _cpu(self) -> Row:
        words = self._stat.read().split(b"\n", 1)[0].split()
        row: Row = {"cores": os.cpu_count()}
        if words[:1] == [b"cpu"] and len(words) > _BUSY[-1]:
            row["cpu_ns"] = sum(int(words[place]) for place in _BUSY) * self._tick_ns
        clocks = [khz for khz in (file.number() for file in self._clocks) if khz]
        row["cpu_clock_hz"] = sum(clocks) * _KHZ // len(clocks) if clocks else None
        row["throttled_ns"] = self._throttled_ns()
        with suppress(OSError):
            usable = float(len(os.sched_getaffinity(self._program)))
            if self._quota_cores is not None:
                usable = min(usable, self._quota_cores)
            self._usable_millicores = round(usable * 1000)
        return row | {"usable_millicores": self._usable_millicores}  # the last, after its end

    def _throttled_ns(self) -> int | None:
        for line in self._throttled.read().splitlines() if self._throttled else ():
            name, _, value = line.partition(b" ")
            if name == b"throttled_usec":
                number = _whole(value)
                return None if number is None else number * 1000
            if name == b"throttled_time":  # of control groups 1
                return _whole(value)
        return None

    def _used_memory(self) -> Row:
        found: dict[bytes, int] = {}
        for line in self._memory.read().split(b"\n", 5)[:5]:
            name, _, rest = line.partition(b":")
            words = rest.split()
            if words and words[0].isdigit():
                found[name] = int(words[0]) * _KIB
        total, free = found.get(b"MemTotal"), found.get(b"MemAvailable")
        if total is None or free is None:
            return {}
        return {"memory_bytes": total - free, "free_memory_bytes": free}

    def _disk_bytes(self) -> Row:
        read = written = 0
        is_any = False
        for line in self._disks.read().splitlines():
            words = line.split()
            if len(words) > _WRITTEN and words[2] in self._disk_names:
                is_any = True
                read += int(words[_READ])
                written += int(words[_WRITTEN])
        if not is_any:
            return {}
        return {"read_bytes": read * _SECTOR, "written_bytes": written * _SECTOR}

    def _network_bytes(self) -> Row:
        counts: dict[bytes, tuple[int, int]] = {}
        for line in self._network.read().splitlines():
            name, colon, rest = line.strip().partition(b":")
            words = rest.split()
            if colon and len(words) > _SENT and name != b"lo":
                counts[name] = int(words[_RECEIVED]), int(words[_SENT])
        if not counts:
            return {}
        # Bridges and bonds count again what a physical interface counts. A container has none.
        chosen = self._interfaces & counts.keys() or counts.keys()
        return {
            "received_bytes": sum(counts[name][0] for name in chosen),
            "sent_bytes": sum(counts[name][1] for name in chosen),
        }


class ProcessHealth:
    """Reads the state of processes.

    Args:
        proc: Where /proc is.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = os.fspath(proc)
        self._tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read(self, pids: Iterable[int]) -> Iterator[Row]:
        """Yield the state of each process that is running, of the first `MOST_PROCESSES`."""
        for pid in sorted(pids)[:MOST_PROCESSES]:
            row = self._read(pid)
            if row is not None:
                yield row

    def _read(self, pid: int) -> Row | None:
        started_ns = time.monotonic_ns()
        try:
            fields = _content(f"{self._proc}/{pid}/stat").rpartition(b")")[2].split()
            if fields[0] in {b"Z", b"X"}:
                return None
            row: Row = {
                "pid": pid,
                "start_ns": started_ns,
                "cpu_ns": (int(fields[_USER]) + int(fields[_SYSTEM])) * self._tick_ns,
                "memory_bytes": int(fields[_PAGES]) * self._page_bytes,
                "minor_faults": int(fields[_MINOR_FAULTS]),
                "major_faults": int(fields[_MAJOR_FAULTS]),
            }
        except (OSError, IndexError, ValueError):
            return None
        with suppress(OSError):  # it is not permitted to read it
            for line in _content(f"{self._proc}/{pid}/io").splitlines():
                name, _, value = line.partition(b": ")
                if name == b"read_bytes":
                    row["read_bytes"] = _whole(value)
                elif name == b"write_bytes":
                    row["written_bytes"] = _whole(value)
        return row | {"end_ns": time.monotonic_ns()}


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _ROOM)
    finally:
        os.close(descriptor)


def _whole(text: bytes) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() and len(text) < 19 else None


def _some(items: list[Path], most: int) -> list[Path]:
    """Return at most so many of the items, from all over the list."""
    return items if len(items) <= most else [items[k * len(items) // most] for k in range(most)]


def _clock_files(root: Path) -> list[Path]:
    folder = root / "sys/devices/system/cpu"
    return sorted(folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))


def _physical(folder: Path) -> frozenset[bytes]:
    """Return the names of what a directory of /sys lists that is a device of its own."""
    try:
        return frozenset(
            os.fsencode(path.name) for path in folder.iterdir() if (path / "device").exists()
        )
    except OSError:
        return frozenset()


def _cpu_limit(root: Path, program: int) -> tuple[float | None, _File | None]:
    """Return the limit of CPU cores by control groups, and the file that counts its effect."""
    groups: dict[bytes, bytes] = {}
    with suppress(OSError):
        for line in (root / f"proc/{program}/cgroup").read_bytes().splitlines():
            _, controllers, path = line.split(b":", 2)
            groups[controllers] = path
    limits: list[tuple[float, Path]] = []
    for folder in _groups(root / "sys/fs/cgroup", groups.get(b"")):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append((int(quota) / int(period), folder))
    first = next((path for names, path in groups.items() if b"cpu" in names.split(b",")), None)
    for folder in _groups(root / "sys/fs/cgroup/cpu", first):
        quota, period = (_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append((int(quota) / int(period), folder))
    if not limits:
        return None, None
    cores, folder = min(limits)
    return cores, _File(folder / "cpu.stat")


def _groups(mount: Path, path: bytes | None) -> Iterator[Path]:
    """Yield the directories of a control group and of those that it is in."""
    # In a container, the path may be the host's; what is mounted is the container's group.
    parts = [part for part in os.fsdecode(path or b"").split("/") if part not in {"", "..", "."}]
    yield mount
    folder = mount
    for part in parts:
        folder /= part
        if not folder.is_dir():
            return
        yield folder


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
