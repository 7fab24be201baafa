"""Tables of a framework's operators, and of the memory that they allocate: one file each."""
