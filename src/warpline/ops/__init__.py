"""Interval, group, join and tree algebra on int64 arrays, independent of traces.

Functions are pure: they never modify inputs and return new arrays. Intervals are half-open.
"""
