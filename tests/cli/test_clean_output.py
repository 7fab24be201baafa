"""Standard output that is written in parts."""

from __future__ import annotations

import pytest

from warpline.cli.stdout import Clean, write_text


@pytest.mark.parametrize(
    "parts",
    [
        ["plain\n", "text"],
        ["no end", " of line"],
        ["two ends\n", "\n"],
        ["escape \x1b[31m", "\ttab\n", "é \udc80\n"],
        ["", "a\r\nb\n"],
    ],
)
def test_parts_are_printed_as_the_whole(
    parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_text("".join(parts))
    whole = capsys.readouterr().out
    out = Clean()
    for part in parts:
        out.write(part)
    out.close()
    assert capsys.readouterr().out == whole
