"""Ask any tool the questions of questions.json, and score its answers.

    python benchmarks/questions/score.py --unpack FOLDER     # writes the recordings
    python benchmarks/questions/score.py --print             # the questions, without answers
    python benchmarks/questions/score.py ANSWERS.json        # {"kernel-count": 120, ...}

An answer is a number or a text; questions without an answer count as wrong. Exit status: 0 if all
are right, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import recordings
from scoring import is_right


def scored(answers: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], bool]]:
    """Return each question with whether its answer is right."""
    known = recordings.questions()["questions"]
    return [(item, is_right(item, answers.get(item["id"]))) for item in known]


def report(answers: Mapping[str, Any]) -> list[str]:
    """Return lines with the wrong answers, then the score."""
    results = scored(answers)
    lines = [
        f"wrong  {item['id']}: {str(answers.get(item['id'], 'no answer'))[:60]!r};"
        f" right: {item['answer']}{' ' + item['unit'] if 'unit' in item else ''}"
        for item, right in results
        if not right
    ]
    unknown = sorted(set(answers) - {item["id"] for item, _ in results})
    lines += [f"no such question: {name}" for name in unknown]
    good = sum(right for _, right in results)
    return [*lines, f"{good} of {len(results)} right ({good / len(results):.1%})"]


def without_answers() -> list[dict[str, Any]]:
    """Return what a tool is asked: the question, the recordings, and the unit of the answer."""
    shown = ("id", "recordings", "question", "unit")
    return [
        {name: item[name] for name in shown if name in item}
        for item in recordings.questions()["questions"]
    ]


def main(words: Sequence[str]) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", nargs="?", type=Path, help="JSON: an object of answers by id")
    parser.add_argument("--unpack", metavar="FOLDER", type=Path, help="write the recordings")
    parser.add_argument("--print", action="store_true", help="print the questions as JSON")
    args = parser.parse_args(words)
    if args.unpack:
        recordings.unpack(args.unpack)
    if args.print:
        print(json.dumps(without_answers(), indent=1, ensure_ascii=False))
    if args.answers is None:
        if not (args.unpack or args.print):
            parser.error("name a file of answers, or use --unpack or --print")
        return 0
    answers = json.loads(args.answers.read_text(encoding="utf-8"))
    if not isinstance(answers, dict):
        parser.error(f"{args.answers} is not an object of answers by id")
    print("\n".join(report(answers)))
    return 0 if all(right for _, right in scored(answers)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
