"""What is wrong with a run and what to change: one rule per file.

A rule finds its place by what launches, waits and kernels do, never by the names of a program's
ranges. It gives changes, not numbers: `replay.pricing` says what they save.
"""
