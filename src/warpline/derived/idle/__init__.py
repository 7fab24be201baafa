"""Why GPUs were idle, and what blocked the threads that launch work."""
