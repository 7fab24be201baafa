"""Launches of compiled code find their calls: random code, launched with known owners."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpline.derived.compiled.alignment import (
    OPERATOR,
    Calls,
    Family,
    Launches,
    align,
    common,
    operator_family,
)

NAMELESS = OPERATOR - 1
CUBLAS, HELPER, ATTENTION, CONVOLUTION = 1001, 1002, 1003, 1004  # kernels of libraries

# What an operator may launch: names and families.
LAUNCHED = {
    Family.PRODUCT: (
        ((CUBLAS, Family.PRODUCT),),
        ((CUBLAS, Family.PRODUCT), (HELPER, Family.OTHER)),
        ((NAMELESS, Family.SET), (CUBLAS, Family.PRODUCT), (HELPER, Family.OTHER)),
    ),
    Family.ATTENTION: (
        ((ATTENTION, Family.ATTENTION),),
        ((ATTENTION, Family.ATTENTION), (HELPER, Family.OTHER)),
    ),
    Family.CONVOLUTION: (((CONVOLUTION, Family.CONVOLUTION),),),
    Family.NOTHING: ((),),
}

operators = st.sampled_from(sorted(LAUNCHED))
calls = st.lists(st.one_of(st.integers(0, 4), operators.map(lambda f: f"op {int(f)}")), max_size=40)


def _code(drawn):
    name = [call if isinstance(call, int) else OPERATOR for call in drawn]
    family = [0 if isinstance(call, int) else int(call[3:]) for call in drawn]
    return Calls(np.array(name, np.int64), np.array(family, np.int8))


def _launches(code, choose):
    """Return launches of some code, and the call of each."""
    made = []
    for place, (name, family) in enumerate(
        zip(code.name.tolist(), code.family.tolist(), strict=True)
    ):
        if name != OPERATOR:
            made.append((name, Family.OTHER, place))
        else:
            ways = LAUNCHED[Family(family)]
            made += [(*launch, place) for launch in ways[choose(len(ways))]]
    return _as_launches(made)


def _as_launches(made):
    names, families, owners = zip(*made, strict=True) if made else ((), (), ())
    launches = Launches(np.array(names, np.int64), np.array(families, np.int8))
    return launches, np.array(owners, np.int64)


@given(calls, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_was_launched_as_called_finds_its_calls(drawn, random):
    code = _code(drawn)
    launches, truth = _launches(code, random.randrange)
    assert align(code, launches).tolist() == truth.tolist()


@given(calls, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_tuned_kernels_belong_to_their_call(drawn, random):
    """The first run launches a kernel several times to tune it."""
    code = _code(drawn)
    launches, truth = _launches(code, random.randrange)
    is_triton = np.isin(launches.name, code.name[code.name != OPERATOR])
    drawn_times = np.array([random.choice((1, 1, 5)) for _ in truth], np.int64)
    times = np.where(is_triton, drawn_times, 1)
    found = align(code, Launches(*(column.repeat(times) for column in launches)))
    of_triton = is_triton.repeat(times)
    assert code.name[found[of_triton]].tolist() == launches.name.repeat(times)[of_triton].tolist()
    # Neighbors that are alike cannot be told apart; all others are right.
    names = code.name[code.name != OPERATOR]
    if not np.any(names[1:] == names[:-1]):
        assert found.tolist() == truth.repeat(times).tolist()


@given(calls, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_missing_and_unknown_launches_move_few_others(drawn, random):
    code = _code(drawn)
    launches, truth = _launches(code, random.randrange)
    kept = np.array([random.random() > 0.05 for _ in truth], np.bool_)
    found = align(code, Launches(*(column[kept] for column in launches)))
    assert np.all((found >= -1) & (found < len(code.name)))
    owned = found[found >= 0]
    assert np.all(np.diff(owned) >= 0)  # in order
    named = np.isin(launches.name[kept], code.name[code.name != OPERATOR])
    assert np.all(code.name[found[named]] == launches.name[kept][named])
    assert np.all(code.name[found[~named & (found >= 0)]] == OPERATOR)


def test_most_launches_are_right_where_some_are_missing():
    random = np.random.default_rng(5)
    right = total = 0
    for _ in range(30):
        drawn = [
            int(kind) if kind < 8 else f"op {int(random.choice([1, 1, 1, 2, 3]))}"
            for kind in random.integers(0, 14, 60)
        ]
        code = _code(drawn)
        launches, truth = _launches(code, lambda n: int(random.integers(n)))
        kept = random.random(len(truth)) > 0.03
        found = align(code, Launches(*(column[kept] for column in launches)))
        right += int(np.count_nonzero(found == truth[kept]))
        total += int(np.count_nonzero(kept))
    assert right / total > 0.95, right / total


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=60, deadline=None)
def test_common_subsequences_are_the_longest(a, b):
    pairs = common(np.array(a, np.int64), np.array(b, np.int64))
    assert [a[i] for i in pairs[:, 0]] == [b[j] for j in pairs[:, 1]]
    assert np.all(np.diff(pairs, axis=0) > 0)
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            grown = lengths[i][j] + (left == right)
            lengths[i + 1][j + 1] = max(grown, lengths[i][j + 1], lengths[i + 1][j])
    assert len(pairs) == lengths[-1][-1]


def test_operators_have_families():
    assert [operator_family(name) for name in ("mm", "addmm", "_scaled_mm", "baddbmm_")] == [1] * 4
    assert operator_family("_scaled_dot_product_cudnn_attention_backward") == Family.ATTENTION
    assert operator_family("convolution_backward") == Family.CONVOLUTION
    assert operator_family("all_reduce_") == Family.COLLECTIVE
    assert operator_family("index_put_") == Family.OTHER
