"""Texts are numbered as by a plain dictionary, with and without the native core."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import native
from warpline.ops.text import factorize_texts

_WORDS = st.one_of(
    st.none(), st.sampled_from([b"", b"a", b"ab", b"step_1"]), st.binary(max_size=20)
)


@pytest.mark.parametrize("use_core", [True, False])
@given(words=st.lists(_WORDS, max_size=40))
def test_equal_texts_share_a_number(use_core, words):
    offsets = np.cumsum([0, *(len(word or b"") for word in words)]).astype(np.int64)
    blob = np.frombuffer(b"".join(word or b"" for word in words), np.uint8)
    valid = np.array([word is not None for word in words], np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        if not use_core:
            patch.setattr(native, "core", lambda: None)
        groups = factorize_texts(blob, offsets, valid)
    numbers: dict[bytes, int] = {}
    expected = [-1 if w is None else numbers.setdefault(w, len(numbers)) for w in words]
    assert groups.codes.tolist() == expected
    assert [words[row] for row in groups.first.tolist()] == list(numbers)


def test_many_distinct_texts():
    words = [str(number).encode() for number in range(5000)] * 2
    offsets = np.cumsum([0, *(len(word) for word in words)]).astype(np.int64)
    groups = factorize_texts(np.frombuffer(b"".join(words), np.uint8), offsets)
    assert groups.codes.tolist() == list(range(5000)) * 2
    assert groups.first.tolist() == list(range(5000))
