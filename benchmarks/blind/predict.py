"""Predict the fixed step of each program of the blind set from the recording of its bad variant.

Usage: PYTHONPATH=benchmarks python benchmarks/blind/predict.py FOLDER [--fixed] > predictions.json

FOLDER has the recordings of measure.py, and its recorded.json or, of programs that were recorded in
turns (time --recorded), its times.json. Prints JSON per program: the step as
recorded and without profiling, and all findings with their predicted steps, in ms of the program's
own steps, whichever steps the analysis found. To be committed before the fixed programs are timed.
With --fixed, the recordings are those of the fixed variants.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import warpline
from warpline.result import Diagnosis

Row = dict[str, Any]


def steps_in_one(found_ns: float, own_ms: float) -> float:
    """Return how many steps of the program there are in a step that was found: N or 1/N."""
    ratio = found_ns / 1e6 / own_ms
    return float(round(ratio)) if ratio >= 1 else 1 / round(1 / ratio)


def predictions(diagnosis: Diagnosis, own_ms: float) -> Row:
    """Return what a diagnosis predicts, per step of `own_ms` ms."""
    steps, replay = diagnosis.steps, diagnosis.replay
    row: Row = {"verdict": diagnosis.verdict, "steps": steps.source, "recorded_ms": own_ms}
    if replay is None:
        return row
    count = steps_in_one(replay.step_ns, own_ms)

    def ms(ns: int | None) -> float | None:
        return None if ns is None else round(ns / 1e6 / count, 4)

    row["program_steps"] = count
    unrecorded = (steps.unprofiled_low_ns, steps.unprofiled_ns, steps.unprofiled_high_ns)
    row["unrecorded_ms"] = [ms(ns) for ns in unrecorded]
    row["findings"] = [
        {
            "rule": item.rule,
            "severity": item.severity,
            "is_generic": item.is_generic,
            "saved_share": [item.share_low, item.share, item.share_high],
            "predicted_ms": [
                ms(ns)
                for ns in (
                    item.predicted_step_low_ns,
                    item.predicted_step_ns,
                    item.predicted_step_high_ns,
                )
            ],
        }
        for item in diagnosis.findings
    ]
    return row


def recorded_steps(folder: Path, variant: str) -> dict[str, float]:
    """Return the mean step in ms of each recorded program."""
    once = folder / "recorded.json"
    if once.exists():
        return dict(json.loads(once.read_text()))
    times = json.loads((folder / "times.json").read_text())
    turns = {name: row.get(f"{variant} recorded", []) for name, row in times.items()}
    return {name: statistics.median(found) for name, found in turns.items() if found}


def main() -> None:
    """Print the predictions."""
    parser = argparse.ArgumentParser(description="Predict the fixed steps of the blind set.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fixed", action="store_true", help="findings on the fixed variants")
    options = parser.parse_args()
    variant = "fixed" if options.fixed else "bad"
    rows = {}
    for name, own_ms in recorded_steps(options.folder, variant).items():
        trace = warpline.open(options.folder / f"{name}.{variant}.warpline")
        rows[name] = predictions(warpline.analyze(trace), own_ms)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
