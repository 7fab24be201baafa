"""Tables with the names, order and arithmetic of Nsight Systems' own."""
