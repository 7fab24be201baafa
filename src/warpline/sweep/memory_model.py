"""Memory as a function of the parameters, fitted to measured points, and how far off it is.

A model is a sum of a constant and products of parameters, as ``a + b batch + c batch context``.
Of several models the one is used that best predicts points it was not fitted to (leave-one-out).
Programs often need the same memory at all small sizes, where another part of a step has the peak,
so the smallest points may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from warpline.frozen import frozen

Numbers = Mapping[str, float]  # the value of each parameter, by its name
Term = tuple[tuple[str, int], ...]  # names and their powers: the factors of a product
_LEAST_POINTS = 3
_MOST_LEFT_OUT = 4  # of the smallest points
_LEAST_ERROR = 2 * 2**20  # bytes: the driver's page
_SAME = 0.005  # models whose errors differ by less are as good
_SINGULAR = 1e-9  # pivots of scaled equations: below, points do not determine the factors
_MOST_DOUBLINGS = 40
_HALVINGS = 40


@frozen
class Sample:
    """A measured point.

    Attributes:
        numbers: Its parameters.
        bytes: The memory at its peak.
    """

    numbers: Numbers
    bytes: int


@frozen
class MemoryModel:
    """Memory at the peak of a point, from its parameters.

    Attributes:
        terms: What is summed.
        factors: Bytes per unit of each term.
        error: How far predictions are off, as a share: the largest error of a point that was left
            out of the fit.
        samples: Number of points that it is fitted to.
    """

    terms: tuple[Term, ...]
    factors: tuple[float, ...]
    error: float
    samples: int

    def bytes_at(self, numbers: Numbers) -> float:
        """Return the memory at a point, in bytes."""
        return sum(
            (
                factor * _product(term, numbers)
                for term, factor in zip(self.terms, self.factors, strict=True)
            ),
            0.0,
        )

    def error_at(self, numbers: Numbers) -> float:
        """Return the error of the memory at a point, in bytes."""
        return max(self.error * abs(self.bytes_at(numbers)), float(_LEAST_ERROR))

    def border(self, numbers: Numbers, name: str, limit: int) -> tuple[float, float, float] | None:
        """Return the value of a parameter at which the memory reaches a limit, and its bounds.

        Args:
            numbers: The other parameters; that of `name` is where the search begins, above 0.
            name: The parameter.
            limit: The limit, in bytes.

        Returns:
            The value, and those at which the memory more, or less, its error reaches the limit;
            None if it does not grow with the parameter.
        """
        found = [self._reaches(numbers, name, limit, sign) for sign in (0, 1, -1)]
        at, low, high = found
        return None if at is None or low is None or high is None else (at, low, high)

    def _reaches(self, numbers: Numbers, name: str, limit: int, sign: int) -> float | None:
        def exceeds(value: float) -> bool:
            point = {**numbers, name: value}
            return self.bytes_at(point) + sign * self.error_at(point) > limit

        low, high = 0.0, numbers[name]
        for _ in range(_MOST_DOUBLINGS):
            if exceeds(high):
                break
            low, high = high, 2 * high
        else:
            return None
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if exceeds(middle) else (middle, high)
        return low


def fit(samples: Sequence[Sample]) -> MemoryModel | None:
    """Return the model that predicts best; None if the points are too few to say.

    Parameters that have one value in all samples are not in it.

    Args:
        samples: Points with the same names.
    """
    ordered = sorted(samples, key=lambda sample: sample.bytes)
    found = [
        (model, left_out)
        for left_out in range(min(len(ordered) // 2, _MOST_LEFT_OUT) + 1)
        if len(ordered) - left_out >= _LEAST_POINTS
        for model in _models(ordered[left_out:])
    ]
    if not found:
        return None
    least = min(model.error for model, _ in found)
    good = [(model, left_out) for model, left_out in found if model.error <= least + _SAME]
    return min(good, key=lambda one: (one[1] + len(one[0].terms), one[0].error))[0]


def _models(samples: Sequence[Sample]) -> Iterator[MemoryModel]:
    """Yield the models that the samples determine, with their errors."""
    names = [
        name
        for name in (samples[0].numbers if samples else ())
        if len({sample.numbers[name] for sample in samples}) > 1
    ]
    for terms in _sums(names):
        if len(samples) <= len(terms):
            continue
        factors = _solved(terms, samples)
        errors = [_error_without(terms, samples, left_out) for left_out in range(len(samples))]
        known = [error for error in errors if error is not None]
        if factors is not None and len(known) == len(errors):
            yield MemoryModel(terms, factors, max(known), len(samples))


def _sums(names: Sequence[str]) -> Iterator[tuple[Term, ...]]:
    """Yield the sums of terms that models may have, of parameters that vary."""
    constant: Term = ()
    single: list[Term] = [((name, 1),) for name in names]
    if not single:
        return
    yield (constant, *single)
    if len(names) == 1:
        yield (constant, *single, ((names[0], 2),))
        return
    product: Term = tuple((name, 1) for name in names)
    yield (constant, product)
    yield (constant, *single, product)
    for name, term in zip(names, single, strict=True):
        steeper: Term = tuple((of, 2 if of == name else 1) for of in names)
        yield (constant, term, product)
        yield (constant, product, steeper)
        yield (constant, term, product, steeper)


def _product(term: Term, numbers: Numbers) -> float:
    found = 1.0
    for name, power in term:
        found *= numbers[name] ** power
    return found


def _error_without(terms: Sequence[Term], samples: Sequence[Sample], left_out: int) -> float | None:
    """Return how far a fit to the other samples is off at one; None if they do not determine it."""
    sample = samples[left_out]
    factors = _solved(terms, [*samples[:left_out], *samples[left_out + 1 :]])
    if factors is None or not sample.bytes:
        return None
    predicted = sum(
        factor * _product(term, sample.numbers) for term, factor in zip(terms, factors, strict=True)
    )
    return abs(predicted - sample.bytes) / sample.bytes


def _solved(terms: Sequence[Term], samples: Sequence[Sample]) -> tuple[float, ...] | None:
    """Return the factors with the least squares of errors; None if they are not determined."""
    columns = [[_product(term, sample.numbers) for sample in samples] for term in terms]
    scales = [max(map(abs, column), default=0.0) or 1.0 for column in columns]
    columns = [
        [value / scale for value in column] for column, scale in zip(columns, scales, strict=True)
    ]
    wanted = [float(sample.bytes) for sample in samples]
    # The normal equations, with the right side as a last column.
    rows = [[_dot(one, other) for other in (*columns, wanted)] for one in columns]
    for place in range(len(rows)):
        best = max(range(place, len(rows)), key=lambda row: abs(rows[row][place]))
        rows[place], rows[best] = rows[best], rows[place]
        pivot = rows[place][place]
        if abs(pivot) < _SINGULAR:
            return None
        rows[place] = [value / pivot for value in rows[place]]
        rows = [row if row is rows[place] else _less(row, row[place], rows[place]) for row in rows]
    return tuple(row[-1] / scale for row, scale in zip(rows, scales, strict=True))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _less(row: Sequence[float], factor: float, other: Sequence[float]) -> list[float]:
    return [value - factor * of for value, of in zip(row, other, strict=True)]
