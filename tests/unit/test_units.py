from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.units import (
    binary_fixed_all,
    fixed,
    fixed_all,
    format_bytes,
    format_count,
    format_ns,
    format_rate,
    format_ratio,
    parse_ns,
    plural,
)


@pytest.mark.parametrize(
    ("value", "digits", "scale", "text"),
    [
        # What nsys prints for sums of 21, 23, ... ns over 20 kernels.
        (1.05, 1, 1, "1.1"),
        (1.15, 1, 1, "1.2"),
        (2.05, 1, 1, "2.1"),
        (2.25, 1, 1, "2.3"),
        (123456.25, 1, 1, "123456.3"),
        (98765432109.35, 1, 1, "98765432109.4"),
        (1000.125, 1, 1, "1000.1"),
        # Shares under "Time (%)": 1 of 2000 is 0.05%.
        (1 / 2000, 1, 100, "0.1"),
        (579 / 2000, 1, 100, "29.0"),
        (1.0, 1, 100, "100.0"),
        (0, 1, 1, "0.0"),
        (-0.04, 1, 1, "0.0"),
        (-1.25, 1, 1, "-1.3"),
        (2**63 - 1, 1, 1, "9223372036854775807.0"),
        (2**53 + 1, 0, 1, "9007199254740993"),
        (1e300, 0, 1, "1" + "0" * 300),
        (5e-324, 3, 1, "0.000"),
    ],
)
def test_fixed_rounds_decimal_halves_away_from_zero(value, digits, scale, text):
    assert fixed(value, digits, scale) == text
    assert fixed_all(np.array([value]), digits, scale) == [text]


def test_fixed_takes_numpy_numbers_exactly():
    assert fixed(np.int64(2**63 - 1), 1) == "9223372036854775807.0"
    assert fixed(np.float64(1.05), 1) == "1.1"


@given(st.integers(-(10**6), 10**6), st.integers(1, 3), st.sampled_from([2, 20, 200, 2000, 7]))
def test_fixed_is_the_decimal_rounding_of_a_mean(total, digits, count):
    exact = Decimal(total) / count
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    assert Decimal(fixed(total / count, digits)) == rounded


FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR_TIES = st.builds(
    lambda whole, ulps: np.nextafter(whole / 20, np.inf * np.sign(ulps)) if ulps else whole / 20,
    st.integers(-(10**12), 10**12),
    st.integers(-1, 1),
)


@given(
    st.lists(FINITE | NEAR_TIES, max_size=20),
    st.sampled_from([0, 1, 3, 6]),
    st.sampled_from([1.0, 100.0, 60.0]),
)
def test_arrays_of_floats_are_formatted_like_single_ones(values, digits, scale):
    expected = [fixed(value, digits, scale) for value in values]
    assert fixed_all(np.array(values, dtype=np.float64), digits, scale) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.sampled_from([0, 1, 3]))
def test_arrays_of_integers_are_formatted_like_single_ones(values, digits):
    for scale in (1.0, 100.0):
        expected = [fixed(value, digits, scale) for value in values]
        assert fixed_all(np.array(values, dtype=np.int64), digits, scale) == expected


def test_converted_units_round_the_binary_quotient():
    sizes = np.array([500, 1500, 2500, 4500, 18500, 123456500])
    texts = ["0.001", "0.002", "0.003", "0.004", "0.018", "123.457"]  # as nsys prints them
    assert binary_fixed_all(sizes / 1e6, 3) == texts


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1500", 1500),
        ("1.5ms", 1_500_000),
        ("1s2ms3us4ns", 1_002_003_004),
        ("2ns5us2", 5004),
        ("1s 2ms", 1_002_000_000),
        ("1s-2ms", 998_000_000),
        ("-1s2ms", -998_000_000),
        ("+1sec", 10**9),
        (".5s", 500_000_000),
        ("1.s", 10**9),
        ("1E3us", 1_000_000),
        ("1e-3s", 1_000_000),
        ("1msec1usec1nsec", 1_001_001),
        ("1m", 60 * 10**9),
        ("1min", 60 * 10**9),
        ("1h", 3600 * 10**9),
        ("1hour", 3600 * 10**9),
        ("1.9", 1),
        ("-1.9", -1),
        ("9223372036.854775807s", 2**63 - 1),
        (" 7us ", 7000),
    ],
)
def test_durations_are_read_as_nsys_reads_them(text, ns):
    assert parse_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "1x", "1S", "1e", "nan", "inf", "0x10", "1seconds", "1,5", "1/2", "--1"),
        *("1e999", "1e9999999999", "1e19", "300000h0h9e18", "٣s", "1 s"),
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="time"):
        parse_ns(text)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (7, "7 ns"),
        (999, "999 ns"),
        (1.5, "1.50 ns"),
        (1000, "1.00 us"),
        (12_345, "12.3 us"),
        (9_999, "10.0 us"),
        (99_990, "100 us"),
        (999_400, "999 us"),
        (999_999, "1.00 ms"),
        (-12_300_000, "-12.3 ms"),
        (61_000_000_000, "61.0 s"),
        (3_600_000_000_000, "3600 s"),
    ],
)
def test_a_duration_has_three_digits(ns, text):
    assert format_ns(ns) == text


def test_sizes_are_binary_and_rates_decimal():
    assert [format_bytes(size) for size in (0, 1023, 1024, 1_610_612_736)] == [
        *("0 B", "1023 B", "1.00 KiB", "1.50 GiB")
    ]
    assert format_rate(3.35e12) == "3.35 TB/s"
    assert format_rate(999_999) == "1.00 MB/s"


def test_shares_and_counts():
    assert format_ratio(0.1234) == "12.3%"
    assert format_count(1_000_036) == "1,000,036"
    assert plural(1, "kernel") == "1 kernel"
    assert plural(2, "kernel") == "2 kernels"
    assert plural(1000, "copy", "copies") == "1,000 copies"
