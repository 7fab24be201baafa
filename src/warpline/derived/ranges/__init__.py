"""NVTX ranges: names, nesting, and the GPU work launched in them."""
