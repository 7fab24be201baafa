"""The launcher: it starts a program, watches it until it ends, and has its recording written."""
