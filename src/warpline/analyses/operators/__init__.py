"""Tables of a framework's operators and of the memory they allocate, one per file."""
