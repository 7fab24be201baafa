"""Code of kernels: instructions and source lines, with samples and counts of each."""
