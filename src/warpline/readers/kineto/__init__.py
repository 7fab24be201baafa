"""Reader of the PyTorch profiler's Chrome traces, as Kineto writes them."""
