"""Hardware counters: named sets of metrics, and how many passes of a kernel they take.

    names on the command line ─▶ names ─▶ plan ◀── host_process ──pipe── profiler_host ── CUPTI
    sets, sections ────────────▶                                          nvperf

Names, units, descriptions and pass counts come from the CUPTI of this machine, which needs no GPU
for them. It runs in a process of its own: `host_process` says why.
"""
