"""Annotations without a profiler: they do nothing, and functions behave the same."""

from __future__ import annotations

import asyncio
import copy
import functools
import pickle
import subprocess
import sys

import pytest

import warpline
from warpline.annotate import Annotation


def test_the_module_is_a_function_whatever_was_imported_first(alone):
    for first in (
        "import warpline",
        "import warpline.annotate",
        "from warpline.annotate import mark; import warpline",
        "from warpline import annotate; import warpline",
    ):
        done = alone(
            "-c",
            f"""
{first}
import types
with warpline.annotate("x"): pass
from warpline.annotate import mark, annotate
import warpline.annotate
assert isinstance(warpline.annotate, types.ModuleType)
warpline.annotate.mark("m"); warpline.mark("m")
assert warpline.annotate("x") is annotate("x")
""",
        )
        assert done.stderr == "", first


def test_nothing_is_loaded_while_nothing_listens(alone):
    done = alone(
        "-c",
        """
import sys, warpline
@warpline.annotate
def work(): pass
with warpline.annotate("x", payload=[1]):
    work()
warpline.range_push("x"); warpline.range_pop(); warpline.mark("m")
assert warpline.start_range("x") is None
warpline.end_range(None)
print([m for m in ("nvtx", "numpy", "polars", "ctypes", "inspect", "asyncio") if m in sys.modules])
""",
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_decorated_functions_return_raise_and_look_as_before():
    @warpline.annotate("x")
    def divide(a: int, b: int = 1) -> float:
        """Divides."""
        return a / b

    assert divide(3, b=2) == 1.5
    assert (divide.__name__, divide.__doc__) == ("divide", "Divides.")
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
    assert warpline.annotate(functools.partial(divide, 4))() == 4


def test_every_kind_of_function_is_wrapped():
    @warpline.annotate
    async def double(x: int) -> int:
        async with warpline.annotate("inner"):
            return x * 2

    @warpline.annotate
    def count(n: int):
        yield from range(n)

    @warpline.annotate
    async def count_slowly(n: int):
        for number in range(n):
            yield number

    async def collect() -> list[int]:
        return [number async for number in count_slowly(3)]

    assert asyncio.run(double(4)) == 8
    assert list(count(3)) == [0, 1, 2]
    assert asyncio.run(collect()) == [0, 1, 2]


@pytest.mark.parametrize("target", [int, 5, None])
def test_only_functions_can_be_annotated(target):
    with pytest.raises(TypeError, match="only functions and methods can be annotated"):
        warpline.annotate("x")(target)


def test_the_name_must_be_a_text():
    with pytest.raises(TypeError, match="a str, not int"):
        warpline.annotate(5)  # type: ignore[call-overload]


def test_an_annotation_can_be_pickled_and_copied():
    annotation = warpline.annotate("x", color="red", payload=3)
    assert isinstance(annotation, Annotation)
    assert repr(pickle.loads(pickle.dumps(annotation))) == repr(copy.copy(annotation))


def test_a_missing_nvtx_is_explained(tmp_path):
    (tmp_path / "nvtx.py").write_text("raise ImportError('no such thing')")
    code = "import warpline; warpline.mark('x')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"NVTX_INJECTION64_PATH": "/nowhere.so", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 1
    assert "no such thing; install it with: pip install nvtx" in done.stderr
