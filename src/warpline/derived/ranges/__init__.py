"""Ranges of the program: their names, their nesting, and the device work launched in them."""
