"""A sweep as a page: the plot and the table, one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO
from xml.sax.saxutils import escape

from warpline.render.escaping import visible
from warpline.render.sweep.axes import Facts, plot_heading
from warpline.render.sweep.heat import heat_maps
from warpline.render.sweep.look import Column, Look
from warpline.render.sweep.picture import picture

_STYLE = """\
:root{color-scheme:light}
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:1.5rem auto;
max-width:72rem;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{font-size:14px;padding:.2rem .5rem;border-bottom:1px solid #ccc;text-align:right;
white-space:nowrap}
th.text,td.text{text-align:left}
.scroll{overflow-x:auto}
figure{margin:0}svg{max-width:100%;height:auto}"""


def write(known: Facts, out: TextIO, look: Look, *, is_page: bool) -> None:
    """Write the plot as SVG, or a page with the plot and the table, one file without scripts."""
    if not is_page:
        out.write(_picture(known, look))
        return
    title = plot_heading(known)
    out.write(
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(title)}</h1>\n"
    )
    if known["gpu"]:
        out.write(f"<p>{_text(known['gpu'])}</p>\n")
    out.writelines(f"<p>{_text(note)}</p>\n" for note in known["notes"])
    out.write(f"<figure>\n{_picture(known, look)}</figure>\n<h2>Points</h2>\n")
    out.writelines(_table(known, look))
    out.write("</main>\n</body>\n</html>\n")


def _picture(known: Facts, look: Look) -> str:
    return picture(known, [*look.panels(known), *heat_maps(known, look)])


def _table(known: Facts, look: Look) -> Iterator[str]:
    columns = look.columns(known)
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Points">\n'
    yield "<table>\n<thead><tr>"
    for name in known["vary"]:
        yield f'<th scope="col">{_text(name)}</th>'
    for column in columns:
        yield f'<th scope="col"{_class(column)}>{_text(column.header)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for point in known["points"]:
        rows: list[Facts | None] = [*look.rows(point)]
        for row in rows or [None]:
            yield "<tr>"
            for value in point["values"].values():
                yield f'<th scope="row">{_text(str(value))}</th>'
            if row is None:
                why = f"Not measured: {point['failure']}"
                yield f'<td class="text" colspan="{max(len(columns), 1)}">{_text(why)}</td>'
            else:
                for column in columns:
                    value = row.get(column.name)
                    text = "" if value is None else _text(column.shown(value))
                    yield f"<td{_class(column)}>{text}</td>"
            yield "</tr>\n"
    yield "</tbody>\n</table>\n</div>\n"


def _class(column: Column) -> str:
    return ' class="text"' if column.is_text else ""


def _text(text: str) -> str:
    return escape(visible(text))
