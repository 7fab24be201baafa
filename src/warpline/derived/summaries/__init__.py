"""Building blocks of summary tables: labelled events, names of kernels and calls."""
