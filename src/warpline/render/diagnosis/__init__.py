"""A diagnosis in each format: text by section, Markdown, JSON."""

# Instead of a checklist without lines.
NOTHING_CHECKED = "No line of the checklist can be judged without work on a GPU."
