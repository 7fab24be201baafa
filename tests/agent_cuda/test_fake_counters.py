"""The fake range profiler notices what an H100 does not forgive: else it would prove nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# The calls in their order, with the parameters of CUPTI 12.6 as words of 8 bytes.
PRELUDE = """
import ctypes, sys
cupti = ctypes.CDLL(sys.argv[1])
u64, u32 = ctypes.c_uint64, ctypes.c_uint32
NAMES = [name.encode() for name in sys.argv[2].split(",")]
names = (ctypes.c_char_p * len(NAMES))(*NAMES)
AUTO, USER_RANGE, KERNEL, USER = 1, 2, 2, 3

def call(function, *fields, size=None):
    words = (u64 * (len(fields) + 2))(8 * (len(fields) + 2) if size is None else size, 0, *fields)
    return getattr(cupti, "cupti" + function)(words), words

def address(thing):
    return ctypes.addressof(thing)

def ok(result):
    assert result[0] == 0, result[0]
    return result[1]

def metrics():
    ok(call("ProfilerInitialize"))
    chip = ctypes.c_char_p(b"GH100")
    host = ok(call("ProfilerHostInitialize", 0, ctypes.cast(chip, ctypes.c_void_p).value, 0, 0))[5]
    ok(call("ProfilerHostConfigAddMetrics", host, address(names), len(NAMES)))
    size = ok(call("ProfilerHostGetConfigImageSize", host, 0))[3]
    config = ctypes.create_string_buffer(size)
    ok(call("ProfilerHostGetConfigImage", host, size, address(config)))
    return host, config

def enable(context=0x2000):
    return ok(call("RangeProfilerEnable", context, 0))[3]

def image_of(profiler, ranges):
    words = ok(call("RangeProfilerGetCounterDataSize", profiler, address(names), len(NAMES),
                    ranges, ranges, 0))
    image = ctypes.create_string_buffer(words[7])
    ok(call("RangeProfilerCounterDataImageInitialize", profiler, len(image), address(image)))
    return image

def configure(profiler, config, image, ranges=8, range=AUTO, replay=KERNEL):
    return call("RangeProfilerSetConfig", profiler, len(config), address(config), len(image),
                address(image), range | replay << 32, ranges, 1 | 1 << 16, 0, 1, size=90)

def set_up(ranges=8, **modes):
    host, config = metrics()
    profiler = enable()
    image = image_of(profiler, ranges)
    ok(configure(profiler, config, image, ranges, **modes))
    return host, config, profiler, image

def start(profiler):
    return call("RangeProfilerStart", profiler)[0]

def stop(profiler):
    return call("RangeProfilerStop", profiler, 0, 0, 0, size=41)[0]

def decode(profiler):
    return call("RangeProfilerDecodeData", profiler, 0)[0]

def ranges_in(image):
    return ok(call("RangeProfilerGetCounterDataInfo", address(image), len(image), 0))[4]

def values(host, image, range):
    got = (ctypes.c_double * len(NAMES))()
    ok(call("ProfilerHostEvaluateToGpuValues", host, address(image), len(image), range,
            address(names), len(NAMES), address(got)))
    return list(got)

class Launch(ctypes.Structure):
    _fields_ = [("context", u64), ("stream", u64), ("function", u64), ("symbol", ctypes.c_char_p),
                ("number", u32), ("grid", u32 * 3), ("block", u32 * 3), ("shared", u32),
                ("memory", ctypes.c_void_p), ("executions", ctypes.c_void_p)]

memory, executions = u64(), u64()

def launch(grid=1, number=0, stream=0):
    how = (u32 * 6)(0, 5, 1, 0, 0, 0)
    what = Launch(0x2000, stream, 0, b"k", number, (grid, 1, 1), (1, 1, 1), 0,
                  address(memory), address(executions))
    return cupti.fake_launch_kernel(how, ctypes.byref(what))

def act(what, stream=0):
    return cupti.fake_driver_act(what, 24, 1, u64(0x2000), u64(stream))

BEGIN_CAPTURE, END_CAPTURE, LAUNCH_GRAPH, END_CONTEXT = range(4)
"""

LIGHT = "gpu__time_duration.sum,sm__cycles_active.avg"
HEAVY = LIGHT + ",sm__throughput.avg"


@pytest.fixture
def tell(cuda):
    """Return a function that runs code after the prelude, and returns what the fake says of it."""

    def run(code: str, metrics: str = LIGHT) -> str:
        done = subprocess.run(
            [sys.executable, "-S", "-c", PRELUDE + code, cuda.cupti13, metrics],
            env={**os.environ, "LD_LIBRARY_PATH": ""},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        lines = done.stderr.splitlines()
        assert done.returncode == 0, done.stderr
        assert all(line.startswith("violation: ") for line in lines)
        return "\n".join(lines)

    return run


@pytest.mark.parametrize(("metrics", "passes"), [(LIGHT, 1), (HEAVY, 9)])
def test_a_kernel_is_replayed_and_memory_restored(tell, metrics, passes):
    said = tell(
        f"""
host, config, profiler, image = set_up()
launch()
for grid in (3, 4):
    assert start(profiler) == 0
    launch(grid, 64)
    assert stop(profiler) == 0
launch()
assert (memory.value, executions.value) == (4, 2 + 2 * {passes})
assert decode(profiler) == 0
assert ranges_in(image) == 2
assert values(host, image, 1)[:2] == [4000, 1000 * len("sm__cycles_active.avg") + 4 + 1]
""",
        metrics,
    )
    assert said == ""


def test_launches_beyond_the_last_range_run_uncounted(tell):
    said = tell("""
host, config, profiler, image = set_up(ranges=2, replay=USER)
assert start(profiler) == 0
for grid in (1, 2, 3): launch(grid)
assert stop(profiler) == 0
result, words = call("RangeProfilerDecodeData", profiler, 0)
assert (result, words[3]) == (0, 0)
assert (ranges_in(image), memory.value) == (2, 3)
""")
    assert said == ""


def test_passes_that_the_program_makes(tell):
    code = """
host, config, profiler, image = set_up(replay=USER)
for number in range(9):
    assert start(profiler) == 0
    launch(1); launch({other} if number == 5 else 2)
    assert stop(profiler) == 0
decode(profiler)
assert (ranges_in(image), memory.value) == (2, 18)
"""
    assert tell(code.format(other=2), HEAVY) == ""
    assert "passes of other launches" in tell(code.format(other=3), HEAVY)


GRAPH = "act(BEGIN_CAPTURE, 7); launch(stream=7); assert act(END_CAPTURE, 7) == 0"


def test_a_graph_is_lost_or_spoils_what_is_started(tell):
    said = tell(f"""
host, config, profiler, image = set_up()
{GRAPH}
start(profiler); act(LAUNCH_GRAPH)
assert (stop(profiler), memory.value) == (0, 0)
""")
    assert "a graph" in said
    said = tell(f"""
host, config, profiler, image = set_up(replay=USER)
{GRAPH}
start(profiler); launch(); act(LAUNCH_GRAPH)
assert (stop(profiler), decode(profiler)) == (999, 999)
assert (ranges_in(image), memory.value) == (0, 2)
""")
    assert "a graph" in said


@pytest.mark.parametrize("before", [True, False])
def test_a_capture_is_spoilt(tell, before):
    first, second = ("start(profiler)", "act(BEGIN_CAPTURE, 7)")
    if before:
        first, second = second, first
    said = tell(f"""
host, config, profiler, image = set_up(replay=USER)
{first}
{second}
assert launch(stream=7) == 901
assert act(END_CAPTURE, 7) == 901
assert stop(profiler) == 999
""")
    assert "capture" in said


def test_a_capture_is_well_with_kernel_replay(tell):
    said = tell("""
host, config, profiler, image = set_up()
act(BEGIN_CAPTURE, 7)
start(profiler)
assert launch(stream=7) == 0
assert act(END_CAPTURE, 7) == 0
assert (stop(profiler), decode(profiler), ranges_in(image), memory.value) == (0, 0, 0, 0)
act(LAUNCH_GRAPH)
assert memory.value == 1
""")
    assert said == ""


FAULTS = [
    ("call('RangeProfilerStart', profiler, size=16)", 1, "size"),
    ("start(profiler); start(profiler)", 7, "is started"),
    ("stop(profiler)", 7, "not started"),
    ("start(profiler); decode(profiler)", 7, "is started"),
    ("start(profiler); configure(profiler, config, image)", 7, "is started"),
    ("start(profiler); call('RangeProfilerDisable', profiler)", 7, "is started"),
    ("call('RangeProfilerEnable', 0x2000, 0)", 7, "it is"),
    ("call('RangeProfilerEnable', 0x2001, 0)", 3, "no context"),
    ("act(END_CONTEXT, 0x2000); start(profiler)", 1, "not enabled"),
    ("configure(profiler, config, ctypes.create_string_buffer(len(image)))", 1, "not initialised"),
    ("configure(profiler, image, image)", 1, "no configuration"),
    ("ctypes.memset(image, 0, 8); start(profiler)", 7, "images are gone"),
    ("ctypes.memset(config, 0, 8); start(profiler)", 7, "images are gone"),
    ("call('RangeProfilerPushRange', profiler, address(config))", 7, "no user range"),
    ("call('RangeProfilerPopRange', profiler)", 7, "no range is open"),
    (
        "start(profiler); launch(); stop(profiler); configure(profiler, config, image)",
        7,
        "not decoded",
    ),
    ("call('ProfilerHostDeinitialize', 16)", 1, "host"),
]


@pytest.mark.parametrize(("code", "result", "said"), FAULTS)
def test_faults(tell, code, result, said):
    *before, last = code.split("; ")
    lines = ["host, config, profiler, image = set_up()", *before, f"got = {last}"]
    lines.append(f"got = got if isinstance(got, int) else got[0]\nassert got == {result}, got")
    assert said in tell("\n".join(lines))


def test_what_cupti_refuses_without_being_asked_wrongly(tell):
    said = tell("""
host, config, profiler, image = set_up()
assert configure(profiler, config, image, range=USER_RANGE)[0] == 7
names[0] = b"no__such_metric.sum"
assert call("ProfilerHostConfigAddMetrics", host, address(names), len(NAMES))[0] == 1
""")
    assert said == ""


def test_a_forked_process_may_not_use_it(tell):
    said = tell("""
import os
host, config, profiler, image = set_up()
child = os.fork()
if child == 0:
    os._exit(start(profiler) != 999)
assert os.waitpid(child, 0)[1] == 0
""")
    assert "forked" in said
