"""A diagnosis in each format: terminal text, Markdown, JSON."""
