"""Programs with planted hot functions, and what samples of their CPU time must say.

Each thread of a program works until it has used the CPU time that it was told, so that neither load
nor the machine's speed matters. Functions that are compared run the same loop, for as many turns as
planted. Rounds differ in length: equal ones that last a third of the time between two samples, as
they did on some machines, would meet each sample at the same three places.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from warpline.trace import Trace

_PYTHON = 3  # of CODE_KINDS
SHARES = {"hot_seventy": 0.7, "hot_twenty": 0.2, "hot_ten": 0.1}

_C = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned long sink;
static long budget_ns;

#define HOT(name) \
  __attribute__((noinline)) void name(long turns) { \
    unsigned long x = turns | 1; \
    for (long i = 0; i < turns; ++i) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } \
    sink += x; \
  }
HOT(hot_seventy)
HOT(hot_twenty)
HOT(hot_ten)

__attribute__((noinline)) void caller(long turns) {
  hot_seventy(7 * turns);
  hot_twenty(2 * turns);
  hot_ten(turns);
  ++sink;
}

static long used_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

__attribute__((noinline)) void work(void) {
  const long until = used_ns() + budget_ns;
  unsigned number = 1;
  while (used_ns() < until) {
    number = number * 1664525u + 1013904223u;
    caller(10000 + number % 20000);
  }
}

static void *thread(void *unused) {
  work();
  ++sink;
  return unused;
}

static void *blocked(void *unused) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  work();
  return unused;
}

static void *(*volatile start)(void *) = thread;

static void in_threads(int count) {
  pthread_t threads[8];
  for (int i = 0; i < count; ++i) pthread_create(threads + i, NULL, start, NULL);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

// Waits for the end of standard input.
__attribute__((noinline)) void wait_for_end(void) {
  char byte;
  while (read(0, &byte, 1) == 1) {}
  ++sink;
}

static pthread_t early[8];
static int early_count;
static void *later(void *unused) {
  wait_for_end();
  work();
  ++sink;
  return unused;
}

static ucontext_t here, there;
static void coroutine(void) {
  work();
  ++sink;
}
static void in_coroutine(void) {
  getcontext(&there);
  there.uc_stack.ss_sp = malloc(1 << 16);
  there.uc_stack.ss_size = 1 << 16;
  there.uc_link = &here;
  makecontext(&there, coroutine, 0);
  swapcontext(&here, &there);
}

static volatile long handled;
static void handler(int number) { handled += number; }

int main(int count, char **words) {
  budget_ns = atol(words[1]) * 1000000L;
  for (int i = 2; i < count; ++i) {
    const char *word = words[i];
    if (!strcmp(word, "work")) work();
    if (!strcmp(word, "thread")) in_threads(1);
    if (!strcmp(word, "coroutine")) in_coroutine();
    if (!strcmp(word, "handle")) signal(SIGURG, handler);
    if (!strcmp(word, "default")) for (int n = 1; n < NSIG; ++n) signal(n, SIG_DFL);
    if (!strcmp(word, "blocked")) { start = blocked; in_threads(1); start = thread; }
    if (!strcmp(word, "fork") && fork() == 0) { work(); exit(0); }
    if (!strcmp(word, "await")) wait_for_end();
    if (!strcmp(word, "early")) pthread_create(early + early_count++, NULL, later, NULL);
    if (!strcmp(word, "early_fork") && fork() == 0) { later(NULL); exit(0); }
    if (!strcmp(word, "exec") && fork() == 0 && !close(1)) {
      execl(words[0], words[0], words[1], "work", (char *)0);
    }
    if (!strcmp(word, "many")) {
      const long all = budget_ns;
      budget_ns = 0;
      for (int n = 0; n < 200; ++n) in_threads(8);
      for (int n = 0; n < 100; ++n) if (fork() == 0) _exit(0);
      budget_ns = all;
    }
  }
  while (early_count > 0) pthread_join(early[--early_count], NULL);
  while (wait(NULL) > 0) {}
  printf("worked\n");
  return 3;
}
"""

_CPP = r"""
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>

volatile unsigned long sink;

namespace model {
struct Layer {
  virtual ~Layer() = default;
  virtual void forward(long turns) = 0;
};
template <int Share>
struct Dense : Layer {
  [[gnu::noinline]] void forward(long turns) override {
    unsigned long x = turns | 1;
    for (long i = 0; i < Share * turns; ++i) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    if (x == 0) throw std::runtime_error("zero");
    sink = sink + x;
  }
};
}  // namespace model

int main(int, char** words) {
  const long until = std::atol(words[1]) * (CLOCKS_PER_SEC / 1000);
  const std::unique_ptr<model::Layer> layers[] = {
      std::make_unique<model::Dense<7>>(), std::make_unique<model::Dense<2>>(),
      std::make_unique<model::Dense<1>>()};
  try {
    for (unsigned number = 1; std::clock() < until;) {
      number = number * 1664525u + 1013904223u;
      for (const auto& layer : layers) layer->forward(10000 + number % 20000);
    }
  } catch (const std::exception&) {
    return 1;
  }
  std::puts("worked");
  return 3;
}
"""

CPP_SHARES = {f"model::Dense<(int){n}>::forward(long)": n / 10 for n in (7, 2, 1)}

# Two thirds are hot_double's, one third is the generator's.
PYTHON = """\
import os, sys, threading, time, zlib

def hot_double(turns):
    x = 1
    for _ in range(2 * turns):
        x = (x * 5 + 1) & 0xFFFF

def generate(turns):
    x = 1
    for _ in range(turns):
        x = (x * 5 + 1) & 0xFFFF
    yield x

def consume(turns):
    for _ in generate(turns):
        pass

def compress():
    zlib.compress(b"words " * 200000, 9)

def work(budget_s):
    until = time.thread_time() + budget_s
    number = 1
    while time.thread_time() < until:
        number = (number * 1664525 + 1013904223) % 2**32
        turns = 2500 + number % 5000
        hot_double(turns)
        consume(turns)

def later():
    while os.read(0, 1):
        pass
    work(budget_s)

budget_s = int(sys.argv[1]) / 1000
early, children = [], []
for word in sys.argv[2:]:
    if word == "work":
        work(budget_s)
    elif word == "compress":
        until = time.thread_time() + budget_s
        while time.thread_time() < until:
            compress()
    elif word == "await":
        sys.stdin.read()
    elif word == "early":
        early.append(threading.Thread(target=later))
        early[-1].start()
    elif word == "early_fork":
        child = os.fork()
        if child == 0:
            later()
            os._exit(0)
        children.append(child)
    elif word == "thread":
        thread = threading.Thread(target=work, args=(budget_s,))
        thread.start()
        thread.join()
    elif word == "fork":
        child = os.fork()
        if child == 0:
            work(budget_s)
            os._exit(0)
        os.waitpid(child, 0)
for thread in early:
    thread.join()
for child in children:
    os.waitpid(child, 0)
print("worked")
sys.exit(3)
"""


def compiled(folder: Path, *, is_cpp: bool = False, options: Sequence[str] = ()) -> Path:
    """Compile the C or C++ program, and return its path; skip the test without a compiler.

    Args:
        folder: Where to.
        is_cpp: Whether it is the one in C++.
        options: More options of the compiler.
    """
    compiler = shutil.which("c++" if is_cpp else "cc")
    if compiler is None:
        pytest.skip("no compiler")
    source = folder / ("hot.cpp" if is_cpp else "hot.c")
    source.write_text(_CPP if is_cpp else _C)
    program = folder / source.stem / "hot"
    program.parent.mkdir(exist_ok=True)
    subprocess.run(
        [compiler, "-O2", *options, str(source), "-o", str(program), "-lpthread"], check=True
    )
    return program


def python_program(folder: Path) -> Path:
    """Write the Python program, and return its path."""
    path = folder / "hot.py"
    path.write_text(PYTHON)
    return path


@dataclass(frozen=True)
class Place:
    """A frame: its function, and its line, -1 for native code."""

    function: str
    line: int


@dataclass(frozen=True)
class Sampled:
    """A sample: its frames, innermost first, the CPU time that it stands for, and its thread."""

    frames: tuple[Place, ...]
    period_ns: int
    thread: int

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(frame.function for frame in self.frames)


def samples_of(trace: Trace) -> list[Sampled]:
    """Return the CPU samples of a recording."""
    stacks = stacks_of(trace)
    columns = trace.columns("cpu_sample", "thread_id", "period_ns", "stack_id")
    rows = (columns[name].filled(-1).tolist() for name in ("thread_id", "period_ns", "stack_id"))
    return [
        Sampled(stacks.get(stack, ()), ns, thread) for thread, ns, stack in zip(*rows, strict=True)
    ]


def stacks_of(trace: Trace) -> dict[int, tuple[Place, ...]]:
    """Return the frames of each stack, innermost first; those of -1 are none."""
    if not trace.has("stack") or not trace.row_count("stack"):
        return {}
    frames = trace.columns("frame", "symbol_id", "line", "kind")
    names = trace.strings.texts(frames["symbol_id"].values.tolist())
    is_python = frames["kind"].values == _PYTHON
    lines = np.where(is_python, frames["line"].filled(-1), -1).tolist()
    places = [Place(name, line) for name, line in zip(names, lines, strict=True)]
    columns = trace.columns("stack", "parent_id", "frame_id")
    found: dict[int, tuple[Place, ...]] = {-1: ()}
    parents = columns["parent_id"].filled(-1).tolist()
    for stack, (parent, frame) in enumerate(
        zip(parents, columns["frame_id"].values.tolist(), strict=True)
    ):
        found[stack] = (places[frame], *found[parent])
    return found


def check_shares(samples: Iterable[Sampled], planted: Mapping[str, float]) -> None:
    """Check the shares of functions, each with all that it calls, among the samples in one of them.

    They may differ from what was planted by two points and five standard deviations of so many
    samples, of which those count less that stand for less time.
    """
    counts, total, squares = Counter[str](), 0, 0
    for sample in samples:
        inner = next((name for name in sample.functions if name in planted), None)
        if inner is not None:
            counts[inner] += sample.period_ns
            total, squares = total + sample.period_ns, squares + sample.period_ns**2
    rows = total**2 / max(squares, 1)
    assert rows > 1
    for name, share in planted.items():
        allowed = 0.02 + 5 * sqrt(share * (1 - share) / rows)
        assert counts[name] / total == pytest.approx(share, abs=allowed), (name, rows)
