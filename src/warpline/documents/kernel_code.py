"""The code of kernels with samples and counts: what the page source shows."""

from __future__ import annotations

from warpline.derived.code.kernels import FunctionCode, function_of_kernels, kernel_codes
from warpline.derived.code.values import launch_values, sampled_kernels, sampled_values
from warpline.documents.code_pages import Named, page_of
from warpline.documents.kernel_filters import NAMES, Choice, any_of, chosen_rows, shown
from warpline.documents.sass import Capability, capabilities_of, sass
from warpline.documents.table_rows import Rows
from warpline.frozen import frozen
from warpline.result.kernel_code import CodeOfLaunches
from warpline.trace import Trace

_SIZES = ("grid", "block")
_SAMPLED_NAMES = {"function": "short_name", "demangled": "name", "mangled": "function"}


@frozen
class _Kernel:
    """A kernel whose code is shown.

    Attributes:
        code: Its instructions.
        named: Its name and launches.
        rows: Rows of its launches in `profiled_kernel`.
        capability: Compute capability of its GPU; None if unknown.
    """

    code: FunctionCode
    named: Named
    rows: tuple[int, ...]
    capability: Capability | None


def kernel_code(
    trace: Trace, choice: Choice, *, shown_name: str = "demangled", most: int | None = None
) -> CodeOfLaunches:
    """Return the code of the chosen kernels: of each kernel and shape, or sampled as a whole.

    Kernels without values at instructions are left out.

    Args:
        trace: The trace.
        choice: Which launches; of samples of the whole program, only names are compared.
        shown_name: The name to show: ``function``, ``demangled`` or ``mangled``.
        most: Number of kernels to return, those with most samples; None returns all.

    Raises:
        UsageError: A filter is malformed.
    """
    kernels = [*_launched(trace, choice, shown_name), *_sampled(trace, choice, shown_name)]
    kernels.sort(key=lambda kernel: -_weight(kernel.code))
    count, kernels = len(kernels), kernels[:most]
    texts = sass(trace, [(kernel.code.rows, kernel.capability) for kernel in kernels])
    codes = tuple(
        page_of(trace, kernel.code, kernel.named, of)
        for kernel, of in zip(kernels, texts, strict=True)
    )
    places = {row: place for place, kernel in enumerate(kernels) for row in kernel.rows}
    rows = chosen_rows(trace, Rows(trace, "profiled_kernel"), choice)
    return CodeOfLaunches(codes, count, tuple(map(places.get, rows)))


def _weight(code: FunctionCode) -> float:
    """Return by what kernels are ranked: samples, else instructions."""
    return float(code.counts.values[:, 0].sum()) if code.metrics else 0.0


def _launched(trace: Trace, choice: Choice, shown_name: str) -> list[_Kernel]:
    found = launch_values(trace)
    if not len(found):
        return []
    table = Rows(trace, "profiled_kernel")
    function = function_of_kernels(found)
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in chosen_rows(trace, table, choice):
        if row in function:
            sizes = [tuple(table[f"{of}_{axis}"][row] for axis in "xyz") for of in _SIZES]
            groups.setdefault((function[row], *sizes), []).append(row)
    capabilities = capabilities_of(trace)
    made = []
    for (_, grid, block), rows, code in zip(
        groups, groups.values(), kernel_codes(trace, found, [*groups.values()]), strict=True
    ):
        if code is not None:
            first = rows[0]
            name = table[NAMES[shown_name]][first] or table["name"][first] or ""
            named = Named(
                table["mangled_name"][first] or table["short_name"][first] or "",
                shown(name),
                f"{grid} x {block}",
                tuple(table["launch_number"][row] for row in rows),
            )
            capability = capabilities(table["device_id"][first])
            made.append(_Kernel(code, named, tuple(rows), capability))
    return made


def _sampled(trace: Trace, choice: Choice, shown_name: str) -> list[_Kernel]:
    found = sampled_values(trace)
    if not len(found):
        return []
    first = sampled_kernels(trace).first
    samples = trace.columns("pc_sample", "function_id", "name_id", "short_name_id", "device_id")
    devices = samples["device_id"].to_list()

    def texts(column: str) -> list[str]:
        return trace.strings.texts(samples[f"{column}_id"].values[first].tolist())

    matches = any_of([] if choice.name is None else [choice.name])
    matched = texts(_SAMPLED_NAMES[choice.name_base])
    chosen = [place for place, name in enumerate(matched) if matches(shown(name))]
    names, symbols = texts(_SAMPLED_NAMES[shown_name]), texts("function")
    capabilities = capabilities_of(trace)
    made = []
    for kernel, code in zip(
        chosen, kernel_codes(trace, found, [[kernel] for kernel in chosen]), strict=True
    ):
        if code is not None:
            capability = capabilities(devices[first[kernel]])
            named = Named(symbols[kernel], shown(names[kernel]), "", ())
            made.append(_Kernel(code, named, (), capability))
    return made
