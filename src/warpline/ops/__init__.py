"""Interval, group, join and tree algebra on int64 arrays; knows nothing of traces.

Functions are pure: inputs are never changed, results are new arrays. Intervals are half-open.
"""
