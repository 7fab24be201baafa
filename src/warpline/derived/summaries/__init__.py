"""What tables of sums are made of: events with labels, the names of kernels and calls."""
