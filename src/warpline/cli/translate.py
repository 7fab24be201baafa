"""``warpline translate``: a command line of nsys, ncu or nvprof as one of Warpline."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.cli.stdout import Facts, write_facts, write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.capture.flags import nvprof, shell_words, translation
    from warpline.capture.flags.shell_words import Word
    from warpline.capture.flags.translation import Translation
    from warpline.cli import parser as parsers
else:
    nvprof = lazy("warpline.capture.flags.nvprof")
    shell_words = lazy("warpline.capture.flags.shell_words")
    translation = lazy("warpline.capture.flags.translation")
    parsers = lazy("warpline.cli.parser")

NAME = "translate"
HELP = "translate a command line of nsys, ncu or nvprof, and say what differs"

_NCU = frozenset({"ncu", "nv-nsight-cu-cli"})
_VIEWERS = frozenset({"nsys-ui", "ncu-ui", "nvvp"})
_TOOLS = frozenset({"nsys", "nvprof", *_NCU, *_VIEWERS})
# Recipes -> the tables or commands that answer the same question.
_RECIPES = {
    "cuda_api_sum": "stats -r cuda_api_sum",
    "cuda_gpu_kern_sum": "stats -r cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum": "stats -r cuda_gpu_mem_size_sum",
    "cuda_gpu_mem_time_sum": "stats -r cuda_gpu_mem_time_sum",
    "osrt_sum": "stats -r osrt_sum",
    "nvtx_sum": "stats -r nvtx_sum",
    "nvtx_gpu_proj_sum": "stats -r nvtx_gpu_proj_sum",
    "nvtx_gpu_proj_trace": "stats -r nvtx_gpu_proj_trace",
    "nccl_sum": "stats -r collective_kern_sum",
    "nccl_gpu_overlap_trace": "stats -r overlap",
    "cuda_gpu_time_util_map": "stats -r gpu_time_util",
    "diff": "compare",
}
_FROM_REPORT = (
    "Reading .nsys-rep files needs an installed nsys; .sqlite exports and Warpline's own recordings"
    " do not."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments for the help; `read` parses them."""
    parser.usage = f"{parser.prog} [OPTIONS] 'nsys profile ...'"
    parser.epilog = (
        "The line may begin with what starts it, such as mpirun -n 4, and is best put in single"
        " quotes. Commands: nsys profile, launch, start, stop, cancel, shutdown, status, sessions,"
        " stats, analyze, export, recipe; ncu; nvprof; nsys-ui, ncu-ui. Nothing is run."
    )
    parser.add_argument(
        "line", nargs="*", metavar="LINE", help="the command line, as one word or as several"
    )
    parser.add_argument(
        "-f", "--format", metavar="FORMAT", default="text", help="output format: text, json"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only Warpline's line")


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether an option before the line asks for help."""
    return any(word in {"-h", "--help"} for word in words[: _options(words)])


def read(words: Sequence[str]) -> Namespace:
    """Parse the options that precede the line."""
    count = _options(words)
    parser = parsers.Parser(f"warpline {NAME}")
    add_arguments(parser)
    args = parser.read(words[:count])
    args.line = list(words[count + 1 :] if words[count : count + 1] == ["--"] else words[count:])
    return args


def _options(words: Sequence[str]) -> int:
    """Return the number of words before the line."""
    count = 0
    while count < len(words) and words[count].startswith("-") and words[count] != "--":
        count += 2 if words[count] in {"-f", "--format"} else 1
    return min(count, len(words))


def run(args: Namespace) -> int:
    """Print the translation."""
    if not args.line:
        raise UsageError("missing LINE argument", hint=f"warpline {NAME} 'nsys profile ./app'")
    is_text = len(args.line) == 1
    words = shell_words.split(args.line[0]) if is_text else shell_words.quoted(args.line)
    done = translated(words)
    if args.quiet and args.format == "text":
        return write_text("\n".join(done.lines))
    facts = dataclasses.asdict(done)
    facts["left_out"] = [{"flag": flag, "reason": why} for flag, why in done.left_out]
    return write_facts(args, facts, _text)


def translated(words: Sequence[Word]) -> Translation:
    """Return the translation of a command line.

    Raises:
        UsageError: It is no line of nsys, ncu or nvprof, or one that has no counterpart.
    """
    place = next((at for at, word in enumerate(words) if _tool(word) in _TOOLS), None)
    if place is None:
        raise UsageError(
            "the line has no nsys, ncu or nvprof", hint=f"warpline {NAME} 'nsys profile ./app'"
        )
    prefix, tool, rest = words[:place], _tool(words[place]), list(words[place + 1 :])
    done = _of_tool(tool, rest, prefix)
    if any(word.value == "sudo" for word in prefix):
        done.differs.append("Recording kernels and copies needs no root: try it without sudo.")
    return done


def _tool(word: Word) -> str:
    return PurePosixPath(word.value).name


def _of_tool(tool: str, rest: list[Word], prefix: Sequence[Word]) -> Translation:
    if tool == "nvprof":
        return nvprof.of_nvprof(rest, prefix)
    if tool in _NCU:
        return translation.of_flags(translation.KERNELS, rest, prefix)
    if tool in _VIEWERS:
        return _read_by("view", rest, prefix)
    if not rest or rest[0].value.startswith("-"):
        raise UsageError("the line has no command of nsys", hint="such as nsys profile ./app")
    command, words = rest[0].value, rest[1:]
    kinds = {
        "profile": translation.PROFILE,
        "launch": translation.LAUNCH,
        "start": translation.START,
    }
    if command in kinds:
        return translation.of_flags(kinds[command], words, prefix)
    if command == "nvprof":
        return nvprof.of_nvprof(words, prefix)
    if command in _OTHERS:
        return _OTHERS[command](words, prefix)
    raise UsageError(
        f"nsys {command} has no counterpart", hint=f"warpline {NAME} --help lists what has one"
    )


def _same(command: str) -> Callable[[list[Word], Sequence[Word]], Translation]:
    """Return what translates a command with the same options."""
    return lambda words, prefix: _read_by(command, words, prefix)


def _read_by(command: str, words: Sequence[Word], prefix: Sequence[Word]) -> Translation:
    """Return the line with Warpline's command, which must accept its words."""
    found = parsers.find(command)
    assert found is not None
    values = [word.value for word in words]
    if isinstance(found, parsers.OwnGrammar):
        found.read(values)
    else:
        parsers.parser_of(found).read(values)
    line = " ".join([*(word.raw for word in prefix), "warpline", command, *(w.raw for w in words)])
    differs = [_FROM_REPORT] if any(v.endswith((".nsys-rep", ".qdrep")) for v in values) else []
    return translation.Translation([line], [], differs)


def _analyzed(words: list[Word], prefix: Sequence[Word]) -> Translation:
    """Return the line for nsys analyze, whose rules Warpline's analyze has others for."""
    files = _files(words)
    done = _read_by("analyze", files, prefix)
    done.left_out += [(word.raw, "all rules are applied") for word in words if word not in files]
    done.differs.insert(
        0, "Rules are Warpline's own; findings are ranked by their estimated saving."
    )
    return done


def _recipe(words: list[Word], prefix: Sequence[Word]) -> Translation:
    name = words[0].value if words else ""
    if name not in _RECIPES:
        raise UsageError(
            f"recipe {name!r} has no counterpart", hint=f"known: {', '.join(sorted(_RECIPES))}"
        )
    command, *options = _RECIPES[name].split()
    chosen = [*shell_words.quoted(options), *_files(words[1:])]
    done = _read_by(command, chosen, prefix)
    done.differs.append("A table is printed, or written with -o; there is no notebook.")
    return done


def _files(words: Sequence[Word]) -> list[Word]:
    """Return the names of recordings among words."""
    endings = (".nsys-rep", ".qdrep", ".sqlite", ".warpline")
    return [word for word in words if word.value.rstrip("/").endswith(endings)]


_OTHERS: Mapping[str, Callable[[list[Word], Sequence[Word]], Translation]] = {
    **{
        name: _same(name)
        for name in ("stats", "export", "stop", "cancel", "shutdown", "status", "sessions")
    },
    "analyze": _analyzed,
    "recipe": _recipe,
}


def _text(facts: Facts) -> str:
    lines = list(facts["lines"])
    if facts["left_out"]:
        lines += ["", "Left out"]
        width = min(max(len(item["flag"]) for item in facts["left_out"]), 40)
        lines += [f"  {item['flag']:{width}}  {item['reason']}" for item in facts["left_out"]]
    if facts["differs"]:
        lines += ["", "Differs", *(f"  {sentence}" for sentence in facts["differs"])]
    return "\n".join(lines)
