"""Blocks of memory: when they were in use, which operators took them, and where they are."""
