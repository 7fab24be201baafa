"""Benchmarks of a GPU: what it reaches in GEMMs, copies and kernel launches.

A benchmark runs in a process of its own (`worker`), because it initializes CUDA, imports large
libraries and may crash: `process` starts it and collects its rows. `gemms`, `copies` and `launches`
say what is measured at one point, `timing` how; `backends` are the libraries that do the work.
`ceilings` compares the rows with the data sheet of the GPU.
"""
