"""Tables over time, steps, sizes and ranks, one per file: what the plots of the page show."""
