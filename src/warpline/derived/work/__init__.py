"""GPU work: the operations of a trace, their launch calls, and the GPUs' busy time."""
