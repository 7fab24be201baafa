"""What `warpline graphcheck` finds in real programs, and what capture then saves.

In the repository's root, on a machine with a GPU: python -m tests.gpu.graphcheck [FOLDER]
Recordings and results are kept in the folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from gpu.graphcheck import programs  # noqa: E402 - after the path is set

PROGRAM = str(HERE / "programs.py")
AT_ONCE = 4
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else None


def started(*command):
    """Run a command to its end."""
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PYTHONPATH": path},
    )


def checked(name):
    """Return the check of a program, and its exit status."""
    command = [sys.executable, "-m", "warpline", "graphcheck", "-q", "--format", "json", "--"]
    if FOLDER is not None:
        command[-1:] = ["-o", str(FOLDER / f"{name}.warpline"), "-f", "true", "--"]
    done = started(*command, sys.executable, PROGRAM, name, "30")
    if FOLDER is not None:
        (FOLDER / f"{name}.json").write_text(done.stdout, encoding="utf-8")
    try:
        return json.loads(done.stdout), done.returncode
    except ValueError:
        return {"verdict": f"failed: {done.stderr[-300:]}", "offenders": []}, done.returncode


def judged(name, found):
    """Return whether the planted offender was found, and what was found without being planted."""
    kinds = next((kinds for each, kinds in programs.PLANTED.items() if each.__name__ == name), ())
    line = programs.planted_line(name)
    hits = [
        item
        for item in found["offenders"]
        if item["kind"] in kinds and item["place"].startswith(f"programs.py:{line} ")
    ]
    false = [item for item in found["offenders"] if item["kind"] not in kinds]
    return bool(hits), false


def main():
    planted = [each.__name__ for each in programs.PLANTED]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        checks = dict(zip(planted, pool.map(checked, planted), strict=True))
    checks |= {name: checked(name) for name in programs.CLEAN}
    print(f"{'program':14} {'verdict':10} status steps planted  false")
    for name, (found, status) in checks.items():
        is_found, false = judged(name, found)
        is_planted = name not in programs.CLEAN
        print(
            f"{name:14} {found['verdict']:10} {status:6} {found.get('steps', {}).get('count')!s:5}"
            f" {('found' if is_found else 'MISSED') if is_planted else '-':8}"
            f" {', '.join(item['kind'] + ' ' + item['place'] for item in false) or 'none'}"
        )
        for item in found["offenders"] if is_planted and not is_found else ():
            print("    ", item["kind"], item["place"], item["functions"], item["per_step"])
    print(
        f"\n{'captured':14} {'predicted us':>24} {'measured':>9} {'eager: now':>11} {'measured':>9}"
    )
    for name in programs.CLEAN:
        found, _ = checks[name]
        saving = found.get("saving")
        done = started(sys.executable, PROGRAM, name, "--captured", "100")
        if done.returncode or saving is None:
            print(name, "failed", done.stderr[-300:])
            continue
        measured = json.loads(done.stdout)
        after = {key: value / 1e3 for key, value in saving["captured_ns"].items()}
        print(
            f"{name:14} {after['central']:8.0f} ({after['low']:.0f} to {after['high']:.0f})"
            f" {measured['captured_ns'] / 1e3:12.0f} {saving['step_ns']['central'] / 1e3:11.0f}"
            f" {measured['eager_ns'] / 1e3:9.0f}"
        )
    in_process()


def in_process():
    """Print what warpline.torch.graphcheck says of steps."""
    code = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import programs, warpline.torch
for name in ("plain", "dropout", "transformer", "item", "masked"):
    step = programs.PROGRAMS[name]()
    print(f"-- {{name}}")
    print(warpline.torch.graphcheck(lambda: step(0)))
"""
    done = started(sys.executable, "-c", code)
    print(done.stdout + done.stderr[-1500:])


if __name__ == "__main__":
    main()
