"""Why a running process cannot be attached to, each with its cure."""

from __future__ import annotations

import errno
import filecmp
import os
import platform
import pwd
import re
from collections.abc import Callable
from pathlib import Path

from warpline.capture.machine import processes
from warpline.capture.machine.agent import (
    AGENT_NAME,
    CUDA_INJECTION_VARIABLE,
    INJECTION_VARIABLE,
)
from warpline.capture.machine.obstacles import Obstacle
from warpline.capture.session.session import SESSION_VARIABLE

_ROOT = Path("/")
_SYS_PTRACE = 1 << 19
_KERNEL_THREAD = 0x200000  # PF_KTHREAD
_FLAGS = 6  # of the fields of stat that follow the name
_STRICT, _FILTERED = "1", "2"  # of Seccomp
_FROM_START = "record the program from its start with warpline profile"

# Libraries of other tools, by the beginning of their names.
_TOOLS = {
    "libToolsInjection": "Nsight Systems",
    "libTreeLauncherTargetInjection": "Nsight Compute",
    "libTreeLauncherPlaceholder": "Nsight Compute",
    "libcuda-injection": "Nsight Compute",
    "libsanitizer-collection": "compute-sanitizer",
    "libcudadebugger": "cuda-gdb",
}
_C_LIBRARY = re.compile(r"libc(\.so\.6|-2\.\d+\.so)( \(deleted\))?")
_PATH = re.compile(r"^\S+ \S+ \S+ \S+ \S+ +(/.*)$", re.MULTILINE)


def obstacle(pid: int, try_rights: Callable[[int], int], root: Path = _ROOT) -> Obstacle | None:
    """Return what stands in the way of attaching to a process; None if nothing is known to.

    Args:
        pid: The process.
        try_rights: Returns 0 if the kernel lets us attach, or a number of errno.
        root: Root of the file system that has /proc.
    """
    return (
        _of_machine()
        or _of_number(pid, root)
        or _of_state(pid, root)
        or _of_rights(pid, try_rights, root)
        or _of_program(pid, root)
        or _of_tools(pid, root)
    )


def process_obstacle(pid: int, root: Path = _ROOT) -> Obstacle | None:
    """Return why a process cannot be observed from outside; None if nothing is known to."""
    return _of_number(pid, root) or _other_user(pid, root)


def library_obstacle(pid: int, library: Path, root: Path = _ROOT) -> Obstacle | None:
    """Return why a process does not see a library by its path; None if it does."""
    inside = root / "proc" / str(pid) / "root" / library.absolute().relative_to("/")
    try:
        if inside.is_file() and (inside.samefile(library) or _is_copy(inside, library)):
            return None
    except OSError:
        pass  # as if it were not there
    if _status(pid, root).get("State", "Z")[:1] in {"Z", "X"}:
        return Obstacle("it ended", "start it again")
    return Obstacle(
        f"it does not see {library}: it runs in another container or root directory",
        "run warpline in that container, or mount its installation there at the same path",
    )


def rights(pid: int, number: int, root: Path = _ROOT) -> Obstacle:
    """Return why the kernel forbids to attach to a process.

    Args:
        pid: The process.
        number: The number of errno that it said.
        root: Root of the file system that has /proc.
    """
    if number == errno.ESRCH:
        return Obstacle("it ended", "start it again")
    if number not in {errno.EPERM, errno.EACCES}:
        return Obstacle(f"the kernel refuses: {os.strerror(number)}", _FROM_START)
    found = (
        _tracer(pid, root)
        or _other_user(pid, root)
        or _yama(root)
        or _is_protected(pid, root)
        or _filtered(root)
    )
    return found or Obstacle(
        "the kernel refuses, as by a container or a security module such as SELinux",
        "run warpline as root, or the container with --cap-add=SYS_PTRACE",
        is_about_rights=True,
    )


def _of_machine() -> Obstacle | None:
    machine = platform.machine()
    if machine == "x86_64":
        return None
    return Obstacle(f"attaching is not supported on {machine}, only on x86-64", _FROM_START)


def _of_number(pid: int, root: Path) -> Obstacle | None:
    status = _status(pid, root)
    if not status:
        return Obstacle("there is no such process", "look for its PID with ps or nvidia-smi")
    state, whole = status.get("State", "")[:1], status.get("Tgid", str(pid))
    found = (
        (state in {"Z", "X"}, "it has ended", "attach to a process that runs"),
        (whole != str(pid), f"it is a thread of process {whole}", f"attach to {whole}"),
        (pid == os.getpid(), "it is Warpline itself", "attach to another process"),
        (_flags(pid, root) & _KERNEL_THREAD, "it is a kernel thread", "attach to a program"),
    )
    return next((Obstacle(cause, cure) for is_so, cause, cure in found if is_so), None)


def _of_state(pid: int, root: Path) -> Obstacle | None:
    status = _status(pid, root)
    state = status.get("State", "")[:1]
    found = (
        (state == "T", "it is stopped", f"let it go on: kill -CONT {pid}"),
        (status.get("Seccomp") == _STRICT, "its sandbox (strict seccomp) forbids it", _FROM_START),
    )
    return next((Obstacle(cause, cure) for is_so, cause, cure in found if is_so), None)


def _of_rights(pid: int, try_rights: Callable[[int], int], root: Path) -> Obstacle | None:
    found = _tracer(pid, root)
    if found is not None:
        return found
    number = try_rights(pid)
    return rights(pid, number, root) if number else None


def _tracer(pid: int, root: Path) -> Obstacle | None:
    tracer = _status(pid, root).get("TracerPid", "0")
    if tracer == "0":
        return None
    name = _text(root / "proc" / tracer / "comm").strip() or "another program"
    return Obstacle(
        f"{name} (process {tracer}) traces it already", "detach or end that debugger first"
    )


def _other_user(pid: int, root: Path) -> Obstacle | None:
    owner, own = (_status(each, root).get("Uid", "").split()[:1] for each in (pid, "self"))
    if owner == own or _has_capability(root):
        return None
    name = _user_name(owner[0]) if owner else "another user"
    return Obstacle(
        f"it belongs to {name}",
        f"run warpline as {name} or as root (CAP_SYS_PTRACE)",
        is_about_rights=True,
    )


def _yama(root: Path) -> Obstacle | None:
    level = _text(root / "proc/sys/kernel/yama/ptrace_scope").strip()
    if level == "3":
        return Obstacle(
            "ptrace is switched off on this machine until it reboots (Yama's ptrace_scope is 3)",
            f"set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and reboot, or {_FROM_START}",
            is_about_rights=True,
        )
    if level not in {"1", "2"} or _has_capability(root):
        return None
    who = "its own children" if level == "1" else "nothing without CAP_SYS_PTRACE"
    return Obstacle(
        f"a process may trace {who} (Yama's ptrace_scope is {level})",
        "run warpline as root, or sysctl kernel.yama.ptrace_scope=0",
        is_about_rights=True,
    )


def _is_protected(pid: int, root: Path) -> Obstacle | None:
    """Return that a process of the same user has protected itself, or has more rights."""
    folder = root / "proc" / str(pid)
    owner = _status(pid, root).get("Uid", "").split()
    try:
        is_hidden = bool(owner) and str((folder / "maps").stat().st_uid) != owner[1]
    except OSError:
        is_hidden = False
    more = _capabilities(pid, root, "CapPrm") & ~_capabilities("self", root, "CapPrm")
    if not (is_hidden or more) or _has_capability(root):
        return None
    return Obstacle(
        "it has more rights than you, or keeps others from reading its memory"
        " (setuid, file capabilities, PR_SET_DUMPABLE)",
        "run warpline as root",
        is_about_rights=True,
    )


def _filtered(root: Path) -> Obstacle | None:
    if _status("self", root).get("Seccomp") != _FILTERED:
        return None
    return Obstacle(
        "this container does not allow ptrace (seccomp)",
        "run it with docker run --cap-add=SYS_PTRACE, or attach from the host",
        is_about_rights=True,
    )


def _of_program(pid: int, root: Path) -> Obstacle | None:
    folder = root / "proc" / str(pid)
    reason = processes.cannot_be_recorded(str(folder / "exe"))
    if reason is not None:
        return Obstacle(f"it {reason}", "link the program dynamically, for this machine")
    maps = _text(folder / "maps")
    if not maps:
        return None  # it has ended, or is not ours to read
    names = {path.rsplit("/", 1)[-1] for path in _PATH.findall(maps)}
    libraries = [name for name in names if _C_LIBRARY.fullmatch(name)]
    found = (
        (_has(names, "ld-musl"), "it uses musl", "run the program on a system with glibc"),
        (not libraries, "it has no glibc, or has just begun to start", "try again"),
        (
            all(name.endswith("(deleted)") for name in libraries),
            "its C library has been replaced by an update since it started",
            "restart the program",
        ),
        (
            _has(names, "libtsan.so"),
            "it was built with ThreadSanitizer",
            "build the program without -fsanitize=thread",
        ),
    )
    return next((Obstacle(cause, cure) for is_so, cause, cure in found if is_so), None)


def _of_tools(pid: int, root: Path) -> Obstacle | None:
    folder = root / "proc" / str(pid)
    paths = _PATH.findall(_text(folder / "maps"))
    names = {path.rsplit("/", 1)[-1] for path in paths}
    cure = "restart the program without it"
    for beginning, tool in _TOOLS.items():
        if _has(names, beginning):
            return Obstacle(f"{tool} is loaded into it", cure)
    variables = _environment(folder)
    if variables.get(SESSION_VARIABLE) and AGENT_NAME in names:
        return Obstacle(
            "Warpline records it already", "end that recording, or wait until the program ends"
        )
    for variable in (CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE):
        value = variables.get(variable, "")
        if value and Path(value).name != AGENT_NAME:
            return Obstacle(
                f"it was started with another profiler ({variable}={value})",
                f"restart the program without {variable}",
            )
    return None


def _has(names: set[str], beginning: str) -> bool:
    return any(name.startswith(beginning) for name in names)


def _environment(folder: Path) -> dict[str, str]:
    pairs = (each.partition("=") for each in _text(folder / "environ").split("\0"))
    return {name: value for name, _, value in pairs}


def _status(pid: int | str, root: Path) -> dict[str, str]:
    """Return the fields of a process's status; empty if there is no such process."""
    lines = _text(root / "proc" / str(pid) / "status").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def _flags(pid: int, root: Path) -> int:
    fields = _text(root / "proc" / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[_FLAGS]) if len(fields) > _FLAGS else 0


def _capabilities(pid: int | str, root: Path, name: str) -> int:
    return int(_status(pid, root).get(name, "0"), 16)


def _has_capability(root: Path) -> bool:
    return bool(_capabilities("self", root, "CapEff") & _SYS_PTRACE)


def _user_name(number: str) -> str:
    try:
        return pwd.getpwuid(int(number)).pw_name
    except KeyError:
        return f"user {number}"


def _is_copy(one: Path, other: Path) -> bool:
    return filecmp.cmp(one, other, shallow=False)


def _text(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
