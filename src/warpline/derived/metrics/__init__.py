"""Hardware metrics of GPUs over time."""
