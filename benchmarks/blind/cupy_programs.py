"""Programs in CuPy; docstrings describe the problem of the bad variant.

Without CuPy, they run with NumPy, which shows that both variants compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from blind.harness import Setting, Step


class CuPy:
    """CuPy as a framework of the harness."""

    def seed(self, number: int) -> None:
        """Do nothing: programs seed what they draw."""

    def finish(self, result: Any) -> None:
        """Wait until all work is done."""
        if hasattr(result, "get"):
            import cupy  # noqa: PLC0415 - may be absent

            cupy.cuda.Device().synchronize()

    def array(self, result: Any) -> Any:
        """Return a result as an array."""
        return result.get() if hasattr(result, "get") else np.asarray(result)


FRAMEWORK = CuPy()


def _library(setting: Setting) -> Any:
    """Return the array library."""
    if setting.device == "cpu":
        return np
    import cupy  # noqa: PLC0415 - may be absent

    return cupy


def _fused(xp: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled to one kernel."""
    return xp.fuse(function) if hasattr(xp, "fuse") else function


def unfused_optics(setting: Setting) -> Step:
    """Every arithmetic operation on the wave field is a kernel with its own temporary array."""
    xp = _library(setting)
    edge, waves = setting.size(2048, 16), setting.size(8, 2)
    line = xp.linspace(-1, 1, edge, dtype=xp.float32)
    x, y = xp.meshgrid(line, line)
    radius, angle = xp.sqrt(x * x + y * y), xp.arctan2(y, x)

    def field(radius: Any, angle: Any, number: Any) -> Any:
        phase = xp.sin(angle * 3.0 + number) * radius * radius * 2.0
        phase = phase + 0.5 * xp.cos(angle) * radius
        window = xp.exp(-(radius * radius) * 4.0)
        return window * xp.cos(phase * 6.25) + 0.1 * xp.sin(phase * number)

    def power(real: Any, imaginary: Any, total: Any) -> Any:
        return total + xp.log1p(real * real + imaginary * imaginary) * 0.125

    if not setting.bad:
        field, power = _fused(xp, field), _fused(xp, power)

    def step(number: int) -> object:
        total = xp.zeros_like(radius)
        for wave in range(waves):
            spectrum = xp.fft.rfft2(field(radius, angle, np.float32(wave + number % 8)))
            half = total[:, : spectrum.shape[1]]
            half[...] = power(spectrum.real, spectrum.imag, half)
        return total

    return step


def short_axis(setting: Setting) -> Step:
    """Sums over an axis of two values use a reduction made for long axes."""
    xp = _library(setting)
    count, centers = setting.size(2_000_000, 100), setting.size(4, 2)
    draw = np.random.default_rng(0)
    points = xp.asarray(draw.standard_normal((count, 2), dtype=np.float32))
    middles = xp.asarray(draw.standard_normal((8, centers, 2), dtype=np.float32))

    def step(number: int) -> object:
        nearest = xp.full(count, np.float32(1e9), dtype=xp.float32)
        for middle in middles[number % 8]:
            square = (points - middle) ** 2
            summed = square.sum(axis=1) if setting.bad else square[:, 0] + square[:, 1]
            xp.minimum(nearest, summed, out=nearest)
        return nearest

    return step


def small_grid(setting: Setting) -> Step:
    """A fused reduction and comparison runs in few blocks."""
    xp = _library(setting)
    count = setting.size(1_000_000, 100)
    draw = np.random.default_rng(0)
    points = xp.asarray(draw.random((8, count, 2)))
    lengths = xp.asarray(draw.random(count))

    def longer(points: Any, lengths: Any) -> Any:
        return xp.sum(points, axis=1) + lengths

    compare = _fused(xp, longer) if setting.bad else longer

    def step(number: int) -> object:
        total = xp.zeros(count)
        for part in points:
            total += compare(part, lengths)
        return total

    return step
