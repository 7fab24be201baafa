"""Sampled metrics, added to recordings of simulated programs."""

from __future__ import annotations

from support.programs import Program

PERCENT = "avg.pct_of_peak_sustained_elapsed"
SM_ACTIVE = f"sm__cycles_active.{PERCENT}"
PERIOD = 100_000  # ns, of a sample at 10 kHz


def sampled(program: Program, name: str, *values: float, device: int = 0, start: int = 0) -> None:
    """Add samples of 100 us of a metric, one after the other; of up to 655, in hundredths."""
    metric = len(program.rows.get("metric", []))
    program.add("metric", name=name)
    first = len(program.rows.get("counter_code", []))
    scale = max(0.01, max(values, default=0.0) / 65_535)
    for value in values:
        program.add("counter_code", code=round(value / scale))
    program.add(
        "counter_block",
        start_ns=start,
        end_ns=start + PERIOD * len(values),
        device_id=device,
        metric_id=metric,
        samples=len(values),
        scale=scale,
        first_code_id=first,
    )
