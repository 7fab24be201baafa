"""What GPU work should take: sizes from names and grids, peaks, and the kernels of the trace."""
