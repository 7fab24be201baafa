"""The bodies of sections, one per file."""
