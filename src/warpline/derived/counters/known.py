"""Numbers of launches that are known for some of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, BoolArray, Integers


class Known(NamedTuple):
    """Numbers of launches or groups of launches, and which of them are known, shape (n,)."""

    values: F64
    is_known: BoolArray


def scaled(values: Known, factor: float) -> Known:
    """Return numbers times a factor."""
    return Known(values.values * factor, values.is_known)


def multiplied(*factors: Known) -> Known:
    """Return the product of numbers, known where all are."""
    values, is_known = factors[0]
    for factor in factors[1:]:
        values, is_known = values * factor.values, is_known & factor.is_known
    return Known(values, is_known)


def ratio(values: Known, divisors: Known) -> Known:
    """Return quotients, known where the divisor is positive."""
    is_known = values.is_known & divisors.is_known & (divisors.values > 0)
    return Known(values.values / np.where(is_known, divisors.values, 1), is_known)


def total(*terms: Known) -> Known:
    """Return the sum of numbers, known where all are."""
    values, is_known = terms[0]
    for term in terms[1:]:
        values, is_known = values + term.values, is_known & term.is_known
    return Known(values, is_known)


def total_of_known(*terms: Known) -> Known:
    """Return the sum of the numbers that are known, known where any is."""
    values = [np.where(term.is_known, term.values, 0) for term in terms]
    return Known(np.sum(values, axis=0), np.any([term.is_known for term in terms], axis=0))


def first_known(*choices: Known) -> Known:
    """Return numbers, and the next ones where they are not known."""
    values, is_known = choices[0]
    for choice in choices[1:]:
        values = np.where(is_known, values, choice.values)
        is_known = is_known | choice.is_known
    return Known(values, is_known)


def summed(values: Known, codes: Integers, count: int) -> Known:
    """Return the sums of groups with these numbers, of the rows that are known."""
    of = values.is_known
    sums = np.bincount(codes[of], values.values[of], count).astype(np.float64)
    return Known(sums, np.bincount(codes[of], minlength=count) > 0)
