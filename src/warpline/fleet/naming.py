"""How sentences name ranks."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.fleet.jobs import Job

_NAMED = 8  # ranks in a sentence
_IN_A_ROW = 4  # ranks that are named by the first and the last


def names(job: Job, ranks: Sequence[int]) -> str:
    """Return names of ranks for a sentence: ``ranks 3, 5 and 40 more``."""
    numbers = [job.numbers[rank] for rank in ranks]
    if len(ranks) == 1 or None in numbers:
        texts = [job.name(rank) for rank in ranks]
        rest = len(texts) - 3
        return ", ".join(texts[:3]) + (f" and {rest} more" if rest > 0 else "")
    return listed([number for number in numbers if number is not None])


def listed(numbers: Sequence[int]) -> str:
    """Return numbers of ranks for a sentence."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    first, last = numbers[0], numbers[-1]
    if len(numbers) >= _IN_A_ROW and [*numbers] == list(range(first, first + len(numbers))):
        return f"ranks {first} to {last}"
    texts = [str(number) for number in numbers[:_NAMED]]
    rest = len(numbers) - _NAMED
    if rest > 0:
        return f"ranks {', '.join(texts)} and {rest} more"
    return f"ranks {', '.join(texts[:-1])} and {texts[-1]}"


def capital(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"
