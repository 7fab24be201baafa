"""When a recording started, by two clocks."""

from types import SimpleNamespace

from warpline.capture.session import facts


def test_the_reading_counts_during_which_the_process_kept_its_core(monkeypatch):
    monotonic = iter([0, 900, 1000, 1900, 2000, 2010, 3000, 3900, 4000, 4900])
    utc = iter([100, 1100, 2105, 3800, 4100])
    clocks = SimpleNamespace(monotonic_ns=lambda: next(monotonic), time_ns=lambda: next(utc))
    monkeypatch.setattr(facts, "time", clocks)
    assert facts.start_times() == {"started_utc_ns": 2105, "started_monotonic_ns": 2005}
