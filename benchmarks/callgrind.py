"""Counts the instructions of a program by native function, with valgrind's callgrind."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

REGION = Path(__file__).parent / "callgrind_region.c"
_NAMED = re.compile(r"(ob|fn)=\((\d+)\)(?: (.*))?$")
_COST = re.compile(r"[+*-]?\d* ?(\d+)$")
_RECURSION = re.compile(r"'\d+$")  # callgrind's name of a function's deeper calls


def missing() -> str | None:
    """Return what counting needs and this machine lacks, if anything."""
    for program in ("valgrind", "cc"):
        if shutil.which(program) is None:
            return program
    return None


def compile_region(folder: Path) -> Path:
    """Compile the library with which a program limits what is counted."""
    library = folder / "callgrind_region.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, REGION], check=True)
    return library


def count(
    command: Sequence[str], output: Path, environment: Mapping[str, str], *, whole: bool
) -> Counter[str]:
    """Return the instructions of each function, as ``OBJECT: FUNCTION``.

    Args:
        command: The program, which must succeed.
        output: The file that callgrind writes.
        environment: Its environment.
        whole: Whether to count the whole process, not only its region (callgrind_region.c).

    Raises:
        SystemExit: The program failed.
    """
    switch = f"--instr-atstart={'yes' if whole else 'no'}"
    valgrind = ["valgrind", "--tool=callgrind", switch, f"--callgrind-out-file={output}"]
    done = subprocess.run(
        [*valgrind, *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return parse(output.read_text(encoding="utf-8", errors="replace"))


def parse(text: str) -> Counter[str]:
    """Return the instructions of each function itself, without those that it calls."""
    names: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    where = {"ob": "", "fn": ""}
    is_callee = False
    for line in text.splitlines():
        named = _NAMED.search(line)  # also cob= and cfn=, which may be the first to give a name
        if named:
            kind, number, name = named.groups()
            if name is not None:
                names[kind, number] = name
            if line.startswith(kind):
                where[kind] = names[kind, number]
        elif line.startswith("calls="):
            is_callee = True  # the next line's cost is that of the called function
        elif cost := _COST.match(line):
            if not is_callee:
                counts[_label(where)] += int(cost[1])
            is_callee = False
    return counts


def _label(where: Mapping[str, str]) -> str:
    return f"{Path(where['ob']).name}: {_RECURSION.sub('', where['fn'])}"
