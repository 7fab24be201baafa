"""``warpline kernels plan``: passes that metrics take, and the metrics of each chip, without a GPU.

``warpline kernels`` with an option of ncu that lists something, such as ``--query-metrics``, means
the same.
"""

from __future__ import annotations

import os
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from warpline.cli.arguments import add_output
from warpline.cli.output import Output
from warpline.cli.startup import lazy
from warpline.errors import CounterError, UsageError

if TYPE_CHECKING:
    from warpline.capture.machine import cupti, gpus
    from warpline.counters import host_process, names, plan, request
    from warpline.documents import counters as documents
    from warpline.result import Document
else:
    cupti = lazy("warpline.capture.machine.cupti")
    gpus = lazy("warpline.capture.machine.gpus")
    host_process = lazy("warpline.counters.host_process")
    names = lazy("warpline.counters.names")
    plan = lazy("warpline.counters.plan")
    request = lazy("warpline.counters.request")
    documents = lazy("warpline.documents.counters")

WORD = "plan"
_MODES = ("base", "suffix", "all")
_COLLECTIONS = ("profiling", "pmsampling")


class Plan:
    """The part ``plan`` of the command ``kernels``."""

    NAME = "kernels plan"
    HELP = "show how many passes metrics take on a chip, and list its metrics; needs no GPU"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = (
            f"{parser.prog} [--chip CHIP] [--set NAME] [--section ID] [--metrics LIST]\n"
            f"       {parser.prog} [--chip CHIP] --list-metrics [PATTERN]\n"
            f"       {parser.prog} --list-chips | --list-sets | --list-sections"
        )
        parser.add_argument(
            "pattern",
            nargs="?",
            metavar="PATTERN",
            help="with --list-metrics: part of the name, or a regular expression",
        )
        parser.add_argument(
            "--chip",
            "--chips",
            dest="chips",
            action="append",
            default=[],
            metavar="CHIP[,...]",
            help="chips, such as GH100 (H100 and H200); --list-chips lists them (default: those of"
            " this machine)",
        )
        _add_what_to_plan(parser)
        _add_what_to_list(parser)
        add_output(parser, formats="text, csv, json, markdown")
        parser.add_argument(
            "--csv", dest="format", action="store_const", const="csv", help="as --format csv"
        )
        parser.add_argument("--rows", type=int, help=SUPPRESS)

    def run(self, args: Namespace) -> int:
        """Print the plan or the list."""
        if args.pattern is not None and args.listed != "metrics":
            raise UsageError(
                f"unexpected argument {args.pattern!r}", hint="use --list-metrics PATTERN"
            )
        output = Output(args)
        if args.listed in {"sets", "sections"}:
            is_sets = args.listed == "sets"
            output.write(documents.sets_document() if is_sets else documents.sections_document())
            return 0
        chips = request.words_of(args.chips)
        if not chips and args.listed != "chips":
            chips = _chips_here()
        with host_process.HostProcess(cupti.find_cupti(os.environ)) as host:
            if args.listed == "chips":
                output.write(documents.chips_document(host))
                return 0
            make = _listed if args.listed else _planned
            output.write_all((make(args, chip, host) for chip in chips), as_list=len(chips) > 1)
        return 0


PLAN = Plan()


def _add_what_to_plan(parser: ArgumentParser) -> None:
    chosen = parser.add_argument_group("what to plan")
    for option, metavar, text in (
        (
            "set",
            "NAME",
            f"sets of metrics (default: {request.DEFAULT_SET}); --list-sets lists them",
        ),
        ("section", "ID", "sections of metrics; --list-sections lists them"),
        (
            "metrics",
            "NAME",
            "metrics, such as NAME.sum, breakdown:NAME (of a throughput), regex:EXPRESSION",
        ),
    ):
        chosen.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar=f"{metavar}[,...]",
            help=text,
        )


def _add_what_to_list(parser: ArgumentParser) -> None:
    listed = parser.add_argument_group("what to list")
    for option, text in (
        ("metrics", "metrics of the chip, with NVIDIA's descriptions, or those of a --set"),
        ("sets", "sets of metrics"),
        ("sections", "sections of metrics"),
        ("chips", "chips that the installed CUPTI knows"),
    ):
        listed.add_argument(
            f"--list-{option}",
            dest="listed",
            action="store_const",
            const=option,
            help=f"list {text}",
        )
    listed.add_argument(
        "--query-metrics",
        dest="listed",
        action="store_const",
        const="metrics",
        help="the same as --list-metrics, as in ncu",
    )
    listed.add_argument(
        "--query-metrics-mode",
        choices=_MODES,
        default=_MODES[0],
        help="base: base names; suffix: all names of the --metrics; all: all names (default: base)",
    )
    listed.add_argument(
        "--query-metrics-collection",
        choices=_COLLECTIONS,
        default=_COLLECTIONS[0],
        help="metrics of kernels and ranges, or those sampled over time (default: profiling)",
    )


def _chips_here() -> list[str]:
    """Return the chips of the GPUs of this machine, each once; UsageError if there are none."""
    try:
        found = gpus.find_gpus(os.environ, cupti.find_cupti(os.environ))
    except CounterError as error:
        raise UsageError(
            f"missing --chip: {error.message}",
            hint="use --chip GH100 (H100 and H200), or see --list-chips",
        ) from None
    return list(dict.fromkeys(gpu.chip for gpu in found.gpus if gpu.chip is not None))


def _planned(args: Namespace, chip: str, host: host_process.HostProcess) -> Document:
    asked = request.Request.of(args.set, args.section, args.metrics)
    found = plan.plan(host, chip, asked.sections(), asked.metrics)
    return documents.plan_document(found, host, asked.text())


def _listed(args: Namespace, chip: str, host: host_process.HostProcess) -> Document:
    catalogue = plan.catalogue(host, chip, args.query_metrics_collection)
    if args.set or args.section:
        asked = request.Request.of(args.set, args.section, args.metrics)
        found = plan.plan(host, chip, asked.sections(), asked.metrics)
        return documents.names_document(catalogue, host, [metric.name for metric in found.metrics])
    if args.query_metrics_mode == "base":
        bases = catalogue.matching_bases(args.pattern or "")
        chosen = [catalogue.metrics[base] for base in bases]
        return documents.metrics_document(catalogue, host, chosen)
    if args.query_metrics_mode == "all":
        bases = list(catalogue.metrics)
    else:
        bases = list(_bases(catalogue, request.words_of(args.metrics)))
    every = [name for base in bases for name in catalogue.full_names(base)]
    if args.pattern is not None:
        wanted = names.compiled(args.pattern)
        every = [name for name in every if wanted.search(name)]
    return documents.names_document(catalogue, host, every)


def _bases(catalogue: names.Catalogue, words: Sequence[str]) -> Iterator[str]:
    """Yield the base names of metrics."""
    if not words:
        raise UsageError(
            "--query-metrics-mode suffix: name the metrics", hint="use --metrics NAME[,...]"
        )
    for word in words:
        full = catalogue.expanded(word, lambda _: None)
        yield from dict.fromkeys(names.split(name)[0] for name in full)
