"""Pack a trace for the browser, and write the report or serve the page.

`pack` converts a trace to a container, in the format of ``viewer/CONTAINER.md``. `page` combines
container, script, and overview in HTML. `server` serves the same page to a local browser. The
script and its style sheet in ``dist/`` are built from ``viewer/``.
"""
