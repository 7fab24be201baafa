"""GPU work by module of a PyTorch model, and by phase of training."""
