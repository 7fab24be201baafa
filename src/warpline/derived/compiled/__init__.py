"""Code from torch.compile: which of its calls launched each GPU operation."""
