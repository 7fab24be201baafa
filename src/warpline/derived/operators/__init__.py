"""A framework's operator calls, and the labels that group them."""
