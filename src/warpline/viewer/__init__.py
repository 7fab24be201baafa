"""Packs a trace for the browser, and makes the one-file report or serves the page.

`pack` turns a trace into a container, the format that ``viewer/CONTAINER.md`` defines; `page` puts
container, script and overview into HTML; `server` gives the same page to a local browser. The
script and its style sheet in ``dist/`` are built from ``viewer/``.
"""
