"""Plots of a sweep: `bars` on a terminal, a `picture` as SVG, and a `page` with it and the table.

What is plotted is the kernel with the most time at each point. A numeric parameter is the x axis,
the one with the most values; each combination of the others is a line (`axes`).
"""
