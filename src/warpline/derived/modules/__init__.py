"""PyTorch modules: their tree, and which of them and which phase of training launched work."""
