"""The rules of `warpline kernels`: one fault of kernels per file.

A rule finds a fault in the counters of launches and says what its repair would change. It never
estimates the time afterwards: `derived.kernel_limits` does.
"""
