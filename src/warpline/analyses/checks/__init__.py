"""The checks of the checklist, one per file; each has its target and why it matters."""
