"""A third set of programs in CuPy; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from blind.cupy_programs import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.cupy_programs import _library
from blind.harness import Setting, Step


def separable_transforms(setting: Setting) -> Step:
    """Fourier transforms of volumes are done axis by axis, with copies between the axes."""
    xp = _library(setting)
    volumes, edge, rounds = setting.size(2, 1), setting.size(256, 12), 3
    if xp is not np:
        config: Any = importlib.import_module("cupy.fft.config")
        config.enable_nd_planning = not setting.bad
    draw = np.random.default_rng(0)
    shape = (volumes, edge, edge, edge)
    measured = xp.asarray(draw.uniform(0.5, 1.5, (2, *shape)).astype(np.float32))
    line = xp.linspace(-1, 1, edge, dtype=xp.float32)
    inside = line[:, None, None] ** 2 + line[None, :, None] ** 2 + line[None, None, :] ** 2 < 0.6
    support = inside.astype(xp.float32)
    axes = (1, 2, 3)

    def projected(guess: Any, size: Any) -> Any:
        """Return the guess with the measured magnitudes of its transform."""
        seen = xp.fft.fftn(guess, axes=axes)
        seen = seen * (size / (xp.abs(seen) + xp.float32(1e-3)))
        return xp.fft.ifftn(seen, axes=axes)

    def step(number: int) -> object:
        size = measured[number % 2]
        guess = (support * size).astype(xp.complex64)
        for _ in range(rounds):
            found = projected(guess, size)
            guess = (support * found + (1 - support) * (guess - xp.float32(0.8) * found)).astype(
                xp.complex64
            )
        return xp.abs(guess).sum(axis=(2, 3))

    return step
