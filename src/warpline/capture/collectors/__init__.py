"""Collectors beside the agent: they read the state of GPUs and of the machine."""
