"""Rounds of start and stop: rounds.py SESSION COUNT FOLDER FLAGS...

Prints what the launcher and the program hold after each round, a line of JSON each.
"""

import json
import os
import sys
import time
from pathlib import Path

from warpline.capture.launcher import steering


def files_of(pid: int) -> int:
    return len([*Path(f"/proc/{pid}/fd").iterdir()])


def others_like_us() -> int:
    """Return how many processes were forked from this one and still run."""
    own = Path("/proc/self/cmdline").read_bytes()
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = int(folder.name) != os.getpid() and own == (folder / "cmdline").read_bytes()
        except OSError:
            continue
        count += is_ours
    return count


def kilobytes_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def main() -> None:
    name, count, folder, flags = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    told = steering.status_of(name)
    for number in range(count):
        output = folder / f"round{number}.warpline"
        steering.start(name, ["-o", str(output), *flags], sys.exit)
        # What is blocked has a stack once it was looked at.
        log = output.with_name(f"{output.name}.raw")
        while not [*log.glob(f"{told['pid']}-*.outside.wlraw")]:
            time.sleep(0.01)
        steering.write(name, steering.stop(name), lambda _: None)
        until = time.monotonic() + 60
        while others_like_us() and time.monotonic() < until:
            time.sleep(0.01)
        held = {
            "files": files_of(told["launcher"]),
            "program": files_of(told["pid"]),
            "children": others_like_us(),
            "kilobytes": kilobytes_of(told["launcher"]),
        }
        sys.stdout.write(json.dumps(held) + "\n")


main()
