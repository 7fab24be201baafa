"""Runs a program at each point of a grid of parameters: its points, their runs, and what was done.

`points` are the values of ``--vary`` and how a command line is filled with them, `running` makes
the runs, `state` is the file that says which are made, so that a sweep can be resumed, and
`failures` says in words why a run failed. What a run records is up to the caller. Only the standard
library is used: programs are forked from this process.
"""
