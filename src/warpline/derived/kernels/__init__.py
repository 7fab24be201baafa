"""What kernels are: their categories, their origins, and which belong to collectives."""
