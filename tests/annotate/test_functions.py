"""``python -m warpline.annotate``: which functions get a range, and how programs run under it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from warpline.annotate.functions import Choice

RUN = ("-m", "warpline.annotate")


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return name


def names(tree: list[str]) -> set[str]:
    return {line.strip() for line in tree}


def test_functions_of_the_program_and_its_modules_nest(recorded, tmp_path):
    write(tmp_path, "lib/__init__.py", "def square(x): return x * x\n")
    script = write(
        tmp_path,
        "train.py",
        """
        import json
        from lib import square

        class Model:
            def forward(self, x):
                def inner(): return [square(y) for y in range(x)]
                return inner()

        def factorial(n): return 1 if n < 2 else n * factorial(n - 1)

        if __name__ == "__main__":
            json.dumps({"a": sorted([3, 1], key=lambda x: -x)})
            Model().forward(2)
            factorial(3)
        """,
    )
    done = recorded(*RUN, script)
    assert done.stderr == ""
    assert done.tree() == [
        "train.<lambda>",
        "train.<lambda>",
        "train.Model.forward",
        "  train.Model.forward.inner",
        "    lib.square",
        "    lib.square",
        "train.factorial",
        "  train.factorial",
        "    train.factorial",
    ]
    assert {row["domain"] for row in done.ranges} == {"python"}


def test_generators_and_coroutines_are_in_their_range_while_they_run(recorded, tmp_path):
    script = write(
        tmp_path,
        "steps.py",
        """
        import asyncio

        def helper(): pass

        def numbers():
            try:
                for number in range(5):
                    yield number
            finally:
                helper()

        def through():
            yield from numbers()

        async def wait(event): await event.wait()

        async def main():
            event = asyncio.Event()
            tasks = [asyncio.create_task(wait(event)) for _ in range(2)]
            await asyncio.sleep(0)
            event.set()
            for task in tasks: await task

        steps = through()
        next(steps)
        helper()
        next(steps)
        steps.close()
        failing = numbers()
        next(failing)
        try:
            failing.throw(KeyError("k"))
        except KeyError:
            pass
        asyncio.run(main())
        """,
    )
    done = recorded(*RUN, script)
    assert done.stderr == ""
    assert not any(row["is_truncated"] for row in done.ranges)
    lines = done.tree()
    assert lines[:5] == ["steps.through", "  steps.numbers", "steps.helper", *lines[:2]]
    # Every pause of one task lets another one run, so nothing is inside what merely waits.
    in_loop = [line for line in lines if line.strip() in {"steps.main", "steps.wait"}]
    assert len(in_loop) >= 5
    assert in_loop == [line.strip() for line in in_loop]
    assert lines.count("  steps.helper") == 2, "both generators were closed inside their range"


def test_errors_and_threads_leave_the_ranges_balanced(recorded, tmp_path):
    script = write(
        tmp_path,
        "errors.py",
        """
        import threading

        def fail(depth):
            if depth: fail(depth - 1)
            raise ValueError(depth)

        def survive():
            try: fail(2)
            except ValueError: pass

        survive()
        threads = [threading.Thread(target=survive) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        survive()
        """,
    )
    done = recorded(*RUN, script)
    assert done.stderr == ""
    nest = ["errors.survive", "  errors.fail", "    errors.fail", "      errors.fail"]
    assert done.tree() == [*nest, *nest, *["--", *nest] * 3]
    assert not any(row["is_truncated"] for row in done.ranges)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 drops the hook at a RecursionError")
def test_what_a_recursion_error_unwinds_is_popped(recorded, tmp_path):
    script = write(
        tmp_path,
        "deep.py",
        """
        def endless(): endless()
        def after(): pass
        try: endless()
        except RecursionError: pass
        after()
        """,
    )
    done = recorded(*RUN, script)
    lines = done.tree()
    assert (done.stderr, lines[-1]) == ("", "deep.after")
    assert len(lines) > 500
    assert not any(row["is_truncated"] for row in done.ranges)


def test_the_program_runs_as_python_would_run_it(recorded, alone, tmp_path):
    script = write(
        tmp_path / "deep",
        "main.py",
        """
        import pickle, sys
        class Thing: pass
        thing = pickle.loads(pickle.dumps(Thing()))
        print(__name__, __file__, sys.argv, sys.path[0], sys.modules["__main__"].Thing is Thing,
              __spec__, __doc__, __package__, sorted(k for k in globals() if k.startswith("__")))
        """,
    )
    arguments = (f"deep/{script}", "--flag", "-m", "--", "value")
    expected = alone(*arguments).stdout
    assert expected.startswith("__main__")
    assert recorded(*RUN, *arguments).stdout == expected
    assert alone(*RUN, *arguments).stdout == expected


def test_a_module_and_a_package_run_as_with_python_m(recorded, alone, tmp_path):
    text = "import sys\nprint(__name__, sys.argv, sys.path[0], __package__, __spec__.name)\n"
    write(tmp_path, "pack/__init__.py", "")
    write(tmp_path, "pack/tool.py", text + "def work(): pass\nwork()\n")
    write(tmp_path, "pack/__main__.py", text)
    for module in ("pack.tool", "pack"):
        expected = alone("-m", module, "-x").stdout
        assert expected.startswith("__main__")
        assert recorded(*RUN, "-m", module, "-x").stdout == expected
    assert recorded(*RUN, "-m", "pack.tool").tree() == ["pack.tool.work"]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("raise SystemExit(7)", 7),
        ("import sys; sys.exit('bye')", 1),
        ("raise ValueError('wrong')", 1),
        ("raise KeyboardInterrupt", -2),
        ("import os; os._exit(5)", 5),
        ("1 +", 1),
    ],
)
def test_programs_end_as_they_would_alone(recorded, alone, tmp_path, ending, status):
    script = write(
        tmp_path, "end.py", ending if "+" in ending else f"def end():\n  {ending}\nend()"
    )
    expected = alone(str(tmp_path / script))
    done = recorded(*RUN, str(tmp_path / script))
    assert (expected.returncode, done.status) == (status, status)
    assert done.stderr == expected.stderr
    assert names(done.tree()) <= {"end.end"}


def test_the_hook_for_errors_that_a_program_sets_is_used(recorded, tmp_path):
    script = write(
        tmp_path,
        "hook.py",
        """
        import sys, traceback
        def hook(kind, error, trace):
            print(kind.__name__, [f.name for f in traceback.extract_tb(trace)])
        sys.excepthook = hook
        def fail(): raise OSError
        fail()
        """,
    )
    assert recorded(*RUN, script).stdout == "OSError ['<module>', 'fail']\n"


def test_forks_go_on_and_spawned_processes_find_main(recorded, tmp_path):
    script = write(
        tmp_path,
        "many.py",
        """
        import multiprocessing, sys
        def work(number): return number * 2
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(work, [1, 2]))
        """,
    )
    done = recorded(*RUN, script)
    assert (done.stdout, done.stderr) == ("[2, 4]\n[2, 4]\n", "")
    assert [row["name"] for row in done.ranges] == ["many.work"] * 2, "those of the fork"


def test_nothing_listens_is_said_in_one_line(alone, tmp_path):
    script = write(tmp_path, "quiet.py", "print('done')")
    done = alone(*RUN, script)
    assert done.stdout == "done\n"
    assert done.stderr.count("\n") == 1
    assert "warpline profile -- python -m warpline.annotate" in done.stderr


@pytest.mark.parametrize("arguments", [("nowhere.py",), ("-m", "nowhere"), ("-m", "sys"), (".",)])
def test_what_cannot_be_run_is_named(alone, arguments):
    done = alone(*RUN, *arguments)
    assert done.returncode == 2
    assert arguments[-1] in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_patterns_choose_functions(recorded, tmp_path):
    write(tmp_path, "lib.py", "def one(): pass\ndef two(): pass\n")
    script = write(
        tmp_path,
        "pick.py",
        """
        import lib, textwrap
        def kept(): lib.one(); lib.two()
        def dropped(): textwrap.dedent("x")
        kept(); dropped()
        """,
    )
    done = recorded(*RUN, "--exclude", "pick.d*", "--exclude=lib.two", "--include=textwrap", script)
    assert done.tree() == ["pick.kept", "  lib.one", "textwrap.dedent"]


def test_installed_packages_and_python_are_foreign(tmp_path):
    choice = Choice([tmp_path, Path(sys.prefix)], "main")
    own = write(tmp_path, "mine.py", "def f(): pass")
    installed = write(tmp_path, "env/lib/site-packages/other.py", "def f(): pass")

    def name_of(path: str, module: str = "m") -> str | None:
        scope: dict[str, object] = {}
        exec(compile("def f(): pass", path, "exec"), scope)
        return choice.name(scope["f"].__code__, module)  # type: ignore[attr-defined]

    assert name_of(str(tmp_path / own)) == "m.f"
    assert name_of(str(tmp_path / own), "__main__") == "main.f"
    assert name_of(str(tmp_path / installed)) is None
    assert name_of("<string>") is None
    assert name_of(subprocess.__file__) is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of Python 3.12")
def test_another_profiler_keeps_its_number(recorded, tmp_path):
    write(
        tmp_path,
        "sitecustomize.py",
        """
        import sys
        for tool in (0, 1, 4): sys.monitoring.use_tool_id(tool, "other")
        """,
    )
    script = write(
        tmp_path,
        "both.py",
        """
        import cProfile, sys
        def f(): pass
        profile = cProfile.Profile()
        profile.runcall(f)
        print(len(profile.getstats()) > 0, sys.monitoring.get_tool(4))
        """,
    )
    done = recorded(*RUN, script, PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr, done.tree()) == ("True other\n", "", ["both.f"])


RANDOM_WALK = '''
"""Calls, generators and coroutines at random; `probe` prints the stack that Python sees."""
import asyncio, random, sys

chance = random.Random(int(sys.argv[1]))
sleeping = []                                     # generators that were left in the middle

def probe():
    frame, names = sys._getframe(1), []
    while frame is not None:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name != "<module>":
            names.append(frame.f_code.co_qualname.replace(".<locals>", ""))
        frame = frame.f_back
    print(" ".join(reversed(names)))

class Oops(Exception): pass

def act(depth):
    probe()
    if depth > 7:
        if chance.random() < 0.3: raise Oops
        return
    chance.choice((call, make, resume, throw, close, through, loop))(depth + 1)
    probe()

def call(depth):
    try:
        act(depth)
    except Oops:
        probe()
        if chance.random() < 0.5: raise

def steps(depth):
    try:
        for _ in range(chance.randrange(4)):
            act(depth)
            yield
            probe()
    except GeneratorExit:
        probe()
    except KeyError:
        act(depth)
        yield

def delegating(depth):
    probe()
    yield from steps(depth)
    probe()

def make(depth): sleeping.append(chance.choice((steps, delegating))(depth))

def pick(): return sleeping.pop(chance.randrange(len(sleeping))) if sleeping else None

def resume(depth):
    generator = pick()
    if generator is not None and next(generator, "end") != "end":
        sleeping.append(generator)
    probe()

def throw(depth):
    generator = pick()
    try:
        if generator is not None: generator.throw(KeyError)
    except (KeyError, StopIteration):
        probe()

def close(depth):
    generator = pick()
    if generator is not None: generator.close()

def through(depth):
    for _ in delegating(depth): act(depth)

async def task(depth):
    for _ in range(chance.randrange(3)):
        probe()
        await asyncio.sleep(0)
        call(depth)

async def tasks():
    await asyncio.gather(*(task(5) for _ in range(3)), return_exceptions=True)

def loop(depth):
    if depth > 2: return
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(tasks())
    finally:
        loop.close()

for action in [call] * 60 + [close] * 200:
    try:
        action(0)
    except Oops:
        pass
'''


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_ranges_are_the_stack_that_python_sees(recorded, tmp_path, seed):
    (tmp_path / "walk.py").write_text(RANDOM_WALK, encoding="utf-8")
    done = recorded(*RUN, "walk.py", seed)
    assert done.stderr == ""
    # What is thrown into a generator, or closes it, goes straight to the one it delegates to.
    seen = [re.sub("(throw|close) delegating", r"\1", line) for line in done.stdout.splitlines()]
    assert len(seen) > 200
    stack: list[str] = []
    stacks = []
    for line in done.tree():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.strip().removeprefix("walk.")
        if name == "probe":
            stacks.append(" ".join(stack[:depth]))
        stack[depth:] = [name]
    assert stacks == seen
