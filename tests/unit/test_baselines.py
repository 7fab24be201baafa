"""Files of baselines: what is written is read, and damaged files are one-line errors."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warpline
from warpline.comparison import baselines
from warpline.comparison.summary import Summary, thinned

NS = st.integers(0, 10**15).map(float)
TEXT = st.text(max_size=20)


@st.composite
def summaries(draw):
    runs = draw(st.integers(1, 4))

    def numbers():
        return st.lists(NS, min_size=runs, max_size=runs).map(tuple)

    steps = st.lists(st.integers(1, 10**15).map(float), min_size=1, max_size=40).map(tuple)
    return Summary(
        title=draw(TEXT),
        recorded_utc=draw(TEXT),
        source=draw(TEXT),
        recordings=tuple(draw(st.lists(TEXT, max_size=3))),
        step_ns=tuple(draw(st.lists(steps, min_size=runs, max_size=runs))),
        parts_ns=draw(st.dictionaries(TEXT, numbers(), max_size=4)),
        kernels_ns=draw(st.dictionaries(TEXT, numbers(), max_size=4)),
        memory_peak_bytes=draw(st.just(()) | numbers()),
        findings=draw(st.dictionaries(TEXT, st.sampled_from(["high", "low"]), max_size=3)),
        environment=draw(st.dictionaries(TEXT, TEXT, max_size=3)),
    )


SMALL = Summary(
    "a", "", "range:step", ("a.warpline",), ((5.0, 6.0), (7.0,)), {"busy:gemm": (4.0, 5.0)}
)


@given(summaries())
def test_what_is_written_is_read(summary):
    assert baselines.loads(baselines.dumps(summary).encode()) == thinned(summary)


def test_files_are_small_and_have_a_line_for_each_run():
    steps = tuple(tuple(float(10**8 + n) for n in range(10_000)) for _ in range(10))
    kernels = {f"kernel_{n}": (float(n),) * 10 for n in range(500)}
    text = baselines.dumps(Summary("a", "", "range:step", (), steps, {}, kernels))
    assert len(text) < 16_000
    assert sum(line.lstrip().startswith("[1") for line in text.splitlines()) == 10
    assert "kernel_499" in text
    assert 'kernel_1"' not in text


@pytest.mark.parametrize("cut", [0, 1, 30, 100, -3])
def test_a_cut_file_is_named(tmp_path, cut):
    path = baselines.save(tmp_path, "main", SMALL)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(warpline.CorruptTraceError, match=r"main\.json: not a baseline") as caught:
        baselines.load(tmp_path, "main")
    assert "save the baseline again" in str(caught.value.hint)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": "1"},
        {"schema_version": None},
        {"step_ns": []},
        {"step_ns": [[]]},
        {"step_ns": [[0]]},
        {"step_ns": [[-1]]},
        {"step_ns": [["1"]]},
        {"step_ns": [[True]]},
        {"step_ns": 5},
        {"step_ns": {"a": 1}},
        {"parts_ns": []},
        {"parts_ns": {"busy:gemm": [1]}},
        {"parts_ns": {"busy:gemm": [1, None]}},
        {"kernels_ns": {"a": [1, 10**400]}},
        {"memory_peak_bytes": [1]},
        {"findings": {"host-sync": "terrible"}},
        {"findings": {"host-sync": ["high"]}},
        {"environment": {"GPU": 5}},
        {"title": None},
        {"recordings": "a"},
    ],
)
def test_wrong_types_are_one_line(tmp_path, changes):
    path = baselines.save(tmp_path, "main", SMALL)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(warpline.CorruptTraceError) as caught:
        baselines.read(path)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"schema_version": 1, "a": ' * 50_000,
        b"\xff\xfe\x00",
        b"null",
        b'{"schema_version": 1, "title": NaN}',
        b'{"schema_version": ' + b"1" * 6000 + b"}",
        b"x" * (5 << 20),
    ],
)
def test_hostile_files(tmp_path, content):
    path = tmp_path / "main.json"
    path.write_bytes(content)
    with pytest.raises(warpline.InputError) as caught:
        baselines.read(path)
    assert "\n" not in caught.value.message


@given(
    st.recursive(
        st.none() | st.integers() | TEXT, lambda x: st.lists(x) | st.dictionaries(TEXT, x)
    ),
    st.sampled_from(["parts_ns", "kernels_ns", "findings", "environment", "title", "recordings"]),
)
def test_any_value_is_read_or_refused(value, name):
    content = {**json.loads(baselines.dumps(SMALL)), name: value}
    with contextlib.suppress(ValueError):  # nothing else is raised
        assert baselines.loads(json.dumps(content).encode()).runs == 2


def test_a_newer_file_says_so(tmp_path):
    path = baselines.save(tmp_path, "main", SMALL)
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(warpline.UnsupportedVersionError, match="99 is newer"):
        baselines.read(path)


@pytest.mark.parametrize("name", ["", "../main", "a/b", ".hidden", "a b", "x" * 200, "a\nb"])
def test_names_stay_in_the_folder(tmp_path, name):
    with pytest.raises(warpline.UsageError, match="not a name"):
        baselines.save(tmp_path, name, SMALL)


def test_saving_twice_needs_consent(tmp_path):
    baselines.save(tmp_path / "new", "main", SMALL)
    with pytest.raises(warpline.UsageError, match="already exists"):
        baselines.save(tmp_path / "new", "main", SMALL)
    baselines.save(tmp_path / "new", "main", SMALL, overwrite=True)
    assert baselines.names(tmp_path / "new") == ["main"]
    assert baselines.remove(tmp_path / "new", "main").name == "main.json"
    with pytest.raises(warpline.UsageError, match="no baseline main"):
        baselines.remove(tmp_path / "new", "main")
    with pytest.raises(warpline.UsageError, match="no baseline main"):
        baselines.load(tmp_path / "new", "main")
