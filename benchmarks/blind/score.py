"""Compare predictions for the blind set with measured times: the tables of docs/findings.md.

Usage: PYTHONPATH=benchmarks python benchmarks/blind/score.py PREDICTIONS TIMES [FIXED]

PREDICTIONS and FIXED are from predict.py, TIMES from measure.py. A row compares the fixed step with
the prediction of the first finding that names the problem (see pairs.toml); if none does, it is a
miss and has no prediction. "ratio" divides the fixed step by the bad one: as both variants take
turns, it does not depend on the speed of the CPU at that moment. Predictions since the bounds of
shares exist also are compared by these.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from blind.harness import Pair, read_pairs

Row = dict[str, Any]


def named(pair: Pair, prediction: Row) -> Row | None:
    """Return the first priced finding that names a pair's problem."""
    for item in prediction.get("findings", ()):
        if item["rule"] in pair.rules and item["predicted_ms"][1] is not None:
            return dict(item)
    return None


def is_first(pair: Pair, prediction: Row) -> bool:
    """Return whether the first finding about the program names a pair's problem."""
    about = [f for f in prediction.get("findings", ()) if f["rule"] != "capture-quality"]
    return bool(about) and about[0]["rule"] in pair.rules


def line(pair: Pair, prediction: Row, times: dict[str, list[float]]) -> tuple[str, Row]:
    """Return a row of the table and its figures."""
    bad, fixed = (statistics.median(times[variant]) for variant in ("bad", "fixed"))
    item = named(pair, prediction)
    first = "yes" if is_first(pair, prediction) else "no"
    facts: Row = {"first": first == "yes", "bad": bad, "fixed": fixed}
    if item is None:
        return f"| {pair.name} | none | {first} | {bad:.3g} | {fixed:.3g} | | | |", facts
    low, central, high = item["predicted_ms"]
    before = prediction["unrecorded_ms"][1]
    facts |= {
        "error": central / fixed - 1,
        "ratio_error": central / before / (fixed / bad) - 1,
        "inside": low <= fixed <= high,
        "width": (high - low) / central,
    }
    outside = "" if facts["inside"] else ", outside"
    if item.get("saved_share"):
        most, _, least = (1 - share for share in item["saved_share"])
        facts["ratio_inside"] = least <= fixed / bad <= most
    text = (
        f"| {pair.name} | `{item['rule']}` | {first} | {bad:.3g} | {fixed:.3g} |"
        f" {central:.3g} ({low:.3g} to {high:.3g}) | {facts['error']:+.0%}{outside} |"
        f" {facts['ratio_error']:+.0%} |"
    )
    return text, facts


def summary(rows: list[Row]) -> str:
    """Return the figures over all pairs."""
    priced = [row for row in rows if "error" in row]
    errors = [abs(row["error"]) for row in priced]
    ratios = [abs(row["ratio_error"]) for row in priced]
    with_ratio = [row["ratio_inside"] for row in priced if "ratio_inside" in row]
    of_ratio = f"; ratios inside: {sum(with_ratio)} of {len(with_ratio)}" if with_ratio else ""
    return (
        f"{len(rows)} pairs; first finding names the problem: {sum(r['first'] for r in rows)};"
        f" some finding does: {len(priced)}.\nOf these: median error"
        f" {statistics.median(errors):.0%}"
        f" (ratio: {statistics.median(ratios):.0%}), within 15%: {sum(e <= 0.15 for e in errors)}"
        f" (ratio: {sum(e <= 0.15 for e in ratios)}), inside the bounds:"
        f" {sum(r['inside'] for r in priced)}, median width"
        f" {statistics.median(r['width'] for r in priced):.0%}{of_ratio}."
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Compare predictions with measured times.")
    parser.add_argument("predictions", type=Path)
    parser.add_argument("times", type=Path)
    parser.add_argument("fixed", type=Path, nargs="?")
    options = parser.parse_args()
    pairs = read_pairs()
    predictions = json.loads(options.predictions.read_text())
    times = json.loads(options.times.read_text())
    print("| program | finding | first | bad | fixed | predicted | error | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for name in predictions:
        text, facts = line(pairs[name], predictions[name], times[name])
        print(text)
        rows.append(facts)
    print("\n" + summary(rows))
    if options.fixed is not None:
        print("\nfindings on the fixed programs")
        for name, row in json.loads(options.fixed.read_text()).items():
            found = (
                f"{f['rule']} ({f['severity']})"
                for f in row.get("findings", ())
                if f["severity"] in {"high", "medium"}
            )
            print(f"{name:18} {', '.join(found) or 'nothing'}")


if __name__ == "__main__":
    main()
