"""What the sections of profiled kernels show beside their lines: charts and tables, as columns."""
