"""The steps of a program: detection, measurement, comparison and selection."""
