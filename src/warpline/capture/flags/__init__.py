"""The flags of ``warpline profile``: declared once, parsed, and kept as settings."""
