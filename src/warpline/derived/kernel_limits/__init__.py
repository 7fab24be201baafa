"""What limits a kernel, and how long it would take after a repair: the next limiter."""
