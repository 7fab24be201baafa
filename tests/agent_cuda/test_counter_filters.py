"""Which launches are counted: the filters that Nsight Compute has too, and samples."""

from __future__ import annotations

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs

PATTERN = "k1,k12g2,k2g3,k12g4"  # three times
ALL = ["k1g1", "k12g2", "k2g3", "k12g4"] * 3


@pytest.fixture
def chosen(run):
    """Return a function that runs the pattern with filters, and returns what was counted."""

    def record(metrics=counted.LIGHT, words=("repeat", 3, PATTERN), **filters):
        folder = run("init", *words, "memory", **counted.keys(metrics, **filters))
        kernels = counted.read(folder)
        counted.check_values(kernels, metrics)
        assert counted.output(folder).endswith(", 0 failed\n")
        return [one.item for one in kernels]

    return record


BY_NAME = [
    pytest.param({"name": "kernel12"}, ["k12g2", "k12g4"] * 3, id="name"),
    pytest.param({"name": "kernel"}, [], id="the whole name"),
    pytest.param({"name_regex": "l[12]$"}, ["k1g1", "k2g3"] * 3, id="expression"),
    pytest.param({"name_regex": "kernel1"}, ["k1g1", "k12g2", "k12g4"] * 3, id="part of a name"),
    pytest.param({"name": "_Z7kernel2Pf", "name_base": "mangled"}, ["k2g3"] * 3, id="mangled"),
    pytest.param(
        {"name": "kernel2(float*)", "name_base": "demangled"}, ["k2g3"] * 3, id="demangled"
    ),
    pytest.param(
        {"name_regex": r"2\(float", "name_base": "demangled"},
        ["k12g2", "k2g3", "k12g4"] * 3,
        id="expression for demangled names",
    ),
]


@pytest.mark.parametrize(("filters", "expected"), BY_NAME)
@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
def test_by_name(chosen, metrics, filters, expected):
    assert chosen(metrics, **filters) == expected


BY_NUMBER = [
    pytest.param({"skip": 5}, ALL[5:], id="skip"),
    pytest.param({"count": 3}, ALL[:3], id="count"),
    pytest.param({"skip": 2, "count": 3}, ALL[2:5], id="both"),
    pytest.param({"skip": 1, "count": 2, "name": "kernel2"}, ["k2g3"] * 2, id="of a name"),
    pytest.param(
        {"skip_before_match": 3, "name": "kernel12"},
        ["k12g4", *["k12g2", "k12g4"] * 2],
        id="before others are looked at",
    ),
    pytest.param(
        {"skip_before_match": 3, "skip": 1, "count": 1, "name": "kernel12"}, ["k12g2"], id="all"
    ),
    pytest.param({"skip": 100}, [], id="more than there are"),
]


@pytest.mark.parametrize(("filters", "expected"), BY_NUMBER)
def test_by_number(chosen, filters, expected):
    assert chosen(**filters) == expected


BY_ID = [
    pytest.param([":::2"], ["k12g4", "k1g1", "k2g3"], id="the second of each kernel"),
    pytest.param(["::kernel12:3"], ["k12g2"], id="the third of a kernel"),
    pytest.param(["::kernel12:2|4"], ["k12g4"] * 2, id="some of a kernel"),
    pytest.param(
        [":::.*5|3"], ["k12g2", "k1g1", "k12g2", "k2g3"], id="an expression for all of it"
    ),
    pytest.param(["::regex:[12]$:1"], ["k1g1", "k12g2", "k2g3"], id="names by an expression"),
    pytest.param(["::kernel1:2", "::kernel2:1"], ["k2g3", "k1g1"], id="several"),
    pytest.param(["2::kernel1:1"], ["k1g1"], id="context"),
    pytest.param(["9::kernel1:1"], [], id="another context"),
    pytest.param([":3:kernel2:"], ["k2g3"] * 3, id="stream"),
    pytest.param([":4:kernel2:"], [], id="another stream"),
]


@pytest.mark.parametrize(("ids", "expected"), BY_ID)
def test_by_id(chosen, ids, expected):
    words = ("stream", 3, "repeat", 3, PATTERN)
    assert chosen(words=words, kernel_id=ids) == expected


@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
def test_excluded_kernels_run_outside(chosen, metrics):
    expected = ["k1g1", "k2g3"] * 3
    assert chosen(metrics, exclude="kernel12") == expected
    assert chosen(metrics, exclude="^_Z8kernel") == expected


def test_samples_of_each_kernel_and_shape(chosen):
    assert chosen(sample=1) == ["k1g1", "k12g2", "k2g3", "k12g4"]
    assert chosen(sample=2) == ALL[:8]
    words = ("repeat", 2, "k1b64,k1b128,k1g2b64")
    assert chosen(words=words, sample=1) == ["k1g1", "k1g1", "k1g2"]


@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
def test_devices(chosen, metrics):
    # Context 1 is device 0's, context 2 is device 1's.
    words = ("repeat", 2, "k1", "context", 1, "repeat", 2, "k2", "context", 2, "repeat", 1, "k3")
    assert chosen(metrics, words, devices="0") == ["k2g1"] * 2
    assert chosen(metrics, words, devices="1") == ["k1g1"] * 2 + ["k3g1"]
    assert chosen(metrics, words, devices="0,1") == ["k1g1"] * 2 + ["k2g1"] * 2 + ["k3g1"]
    assert chosen(metrics, words, devices="7") == []
    # Launches on other devices are not among those that -c counts.
    assert chosen(metrics, words, devices="0", count=1) == ["k2g1"]


def test_launches_before_a_counted_one_are_known(run):
    folder = run("init", "repeat", 3, PATTERN, **counted.keys(name="kernel12"))
    assert [one.record.seen for one in counted.read(folder)] == [1, 3, 5, 7, 9, 11]


@pytest.mark.parametrize("gap", [3, 100])
def test_many_launches_that_are_not_wanted_in_between(run, gap):
    folder = run(
        "init", "repeat", 4, f"k1g2,k2x{gap},k1g3", "memory", **counted.keys(name="kernel1")
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g2", "k1g3"] * 4
    counted.check_values(kernels)
    ran = 4 * (gap + 2)
    assert counted.output(folder) == f"memory {ran} of {ran}, 0 failed\n"


@pytest.mark.parametrize("key", ["name_regex", "exclude"])
def test_an_invalid_expression_is_told(run, key):
    folder = run(
        "init", "repeat", 2, "k1", "memory", **counted.keys(), **{f"counter_{key}": "(kernel"}
    )
    (told,) = [text for kind, text in logs.notes(folder) if kind == logs.NOTE_NO_COUNTERS]
    assert "(kernel" in told
    assert counted.read(folder) == []
    assert counted.output(folder) == "memory 2 of 2, 0 failed\n"


ENDING = ("repeat", 2, "k1")
BY_MODE = [
    pytest.param({"mode": "per-gpu", "count": 1}, ["k1g1", "k2g1"], id="count per GPU"),
    pytest.param(
        {"mode": "per-gpu", "skip": 3}, ["k1g2", "k2g1", "k1g1", "k1g1"], id="skip per GPU"
    ),
    pytest.param({"mode": "global", "count": 1}, ["k1g1"], id="count of all"),
    pytest.param(
        {"mode": "per-launch-config", "count": 1}, ["k1g1", "k1g2", "k2g1"], id="per configuration"
    ),
    pytest.param(
        {"mode": "per-launch-config", "skip": 3}, ["k2g1", "k1g1"], id="skip per configuration"
    ),
]


@pytest.mark.parametrize(("filters", "expected"), BY_MODE)
def test_filter_modes(chosen, filters, expected):
    # On device 1 k1 with two grids, on device 0 k2, which has another size of shared memory.
    words = (*("repeat", 2, "k1,k1g2", "context", 1, "repeat", 4, "k2", "context", 2), *ENDING)
    mode = filters.pop("mode")
    assert chosen(words=words, filter_mode=mode, **filters) == expected
