"""A diagnosis in each format: text by section, Markdown, JSON."""

# Shown in place of an empty checklist.
NOTHING_CHECKED = "The checklist needs GPU work, and none was recorded."
