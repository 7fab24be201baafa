"""Whether steps may be captured as CUDA graphs, and whether graphs do what the steps did."""
