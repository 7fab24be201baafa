"""Classification of kernels: categories, origins, and collectives."""
