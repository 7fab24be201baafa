"""Registration of analyses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from warpline.frozen import frozen, made
from warpline.registry import Registry
from warpline.result.tables import Field, Result, Skipped
from warpline.trace import Trace

Arguments = tuple[str, ...]
Compute = Callable[[Trace, Arguments], Result | Skipped]


@frozen
class Analysis:
    """A registered analysis.

    Attributes:
        name: The name that users type.
        title: Heading.
        fields: Columns of its result. An argument may add columns.
        needs: Tables of the trace of which at least one must have rows.
        compute: The function.
        doc: Its docstring, shown by `explain` and in the documentation.
        arguments: Supported arguments after a colon -> description.
        default_rank: Position among the default tables of `stats`, or None.
        missing_hint: How to record the required events.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    needs: tuple[str, ...]
    compute: Compute
    doc: str
    arguments: Mapping[str, str] = made(dict)
    default_rank: int | None = None
    missing_hint: str | None = None


ANALYSES: Registry[Analysis] = Registry("table")


def analysis(  # noqa: PLR0913 - a declaration; every part is named
    *,
    name: str,
    title: str,
    fields: Sequence[Field],
    needs: Sequence[str],
    aliases: Sequence[str] = (),
    arguments: Mapping[str, str] | None = None,
    default_rank: int | None = None,
    missing_hint: str | None = None,
) -> Callable[[Compute], Compute]:
    """Register the decorated function as an analysis.

    The function receives the trace and the arguments after the name (``:base``), checked against
    `arguments`. It only runs if one of the tables in `needs` has rows. Its docstring has the
    headings *What it measures*, *Why it matters*, *How it is computed*, *Limits* and *Source*.
    """

    def register(compute: Compute) -> Compute:
        doc = compute.__doc__ or ""
        ANALYSES.add(
            name,
            Analysis(
                name,
                title,
                tuple(fields),
                tuple(needs),
                compute,
                doc,
                dict(arguments or {}),
                default_rank,
                missing_hint,
            ),
            aliases=aliases,
        )
        return compute

    return register
