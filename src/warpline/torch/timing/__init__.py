"""Timing functions: stopwatches, repetitions in turns, medians, and the GPU's clock meanwhile."""
