"""A diagnosis in each format: text by section, Markdown, JSON."""
