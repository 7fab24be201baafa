"""A sweep as a page: the plot and the table, one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TextIO
from xml.sax.saxutils import escape

from warpline.render.escaping import visible
from warpline.render.sweep.axes import Facts, plot_heading
from warpline.render.sweep.picture import picture
from warpline.units import format_ns, format_ratio

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


def write(known: Facts, out: TextIO, *, is_page: bool) -> None:
    """Write the plot as SVG, or a page with the plot and the table, one file without scripts."""
    if not is_page:
        out.write(picture(known))
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
    out.write(f"<figure>\n{picture(known)}</figure>\n<h2>Points</h2>\n")
    out.writelines(_table(known))
    out.write("</main>\n</body>\n</html>\n")


_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("short_name", "Kernel", str),
    ("grid", "Grid", str),
    ("block", "Block", str),
    ("duration_ns", "Time", format_ns),
    ("sm_ratio", "SM", format_ratio),
    ("tensor_ratio", "Tensor Cores", format_ratio),
    ("dram_ratio", "DRAM", format_ratio),
    ("flop_per_s", "TFLOP/s", lambda value: f"{value / 1e12:.3f}"),
    ("bytes_per_s", "GB/s", lambda value: f"{value / 1e9:.1f}"),
    ("intensity", "FLOP/B", lambda value: f"{value:.2f}"),
    ("roof", "Ceiling", str),
    ("roof_ratio", "Of ceiling", format_ratio),
    ("occupancy_ratio", "Occupancy", format_ratio),
)
_TEXTS = frozenset({"short_name", "grid", "block", "roof"})


def _table(known: Facts) -> Iterator[str]:
    kernels = [kernel for point in known["points"] for kernel in point["kernels"]]
    columns = [column for column in _COLUMNS if any(k.get(column[0]) is not None for k in kernels)]
    metrics = dict.fromkeys(name for kernel in kernels for name in kernel["metrics"])
    columns += [(name, name, lambda value: f"{value:.6g}") for name in metrics]
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Points">\n'
    yield "<table>\n<thead><tr>"
    for name in known["vary"]:
        yield f'<th scope="col">{_text(name)}</th>'
    for name, header, _ in columns:
        yield f'<th scope="col"{_class(name)}>{_text(header)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for point in known["points"]:
        for kernel in point["kernels"] or [None]:
            yield "<tr>"
            for value in point["values"].values():
                yield f'<th scope="row">{_text(str(value))}</th>'
            if kernel is None:
                why = f"Not measured: {point['failure']}"
                yield f'<td class="text" colspan="{max(len(columns), 1)}">{_text(why)}</td>'
            else:
                values = kernel["metrics"] | kernel
                for name, _, shown in columns:
                    value = values.get(name)
                    yield f"<td{_class(name)}>{'' if value is None else _text(shown(value))}</td>"
            yield "</tr>\n"
    yield "</tbody>\n</table>\n</div>\n"


def _class(name: str) -> str:
    return ' class="text"' if name in _TEXTS else ""


def _text(text: str) -> str:
    return escape(visible(text))
