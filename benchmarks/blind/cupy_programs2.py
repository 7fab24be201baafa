"""More programs in CuPy; docstrings describe the problem of the bad variant."""

from __future__ import annotations

from typing import Any

import numpy as np
from blind.cupy_programs import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from blind.cupy_programs import _library
from blind.harness import Setting, Step


def _decimated(xp: Any, samples: Any, filters: Any, factor: int) -> Any:
    """Return samples, (antennas, time), filtered and thinned out, one row for each filter."""
    taps = filters.shape[-1]
    antennas, length = samples.shape[-2:]
    count = (length - taps) // factor + 1
    *others, item = samples.strides
    windows = xp.lib.stride_tricks.as_strided(
        samples,
        (*samples.shape[:-2], antennas, count, taps),
        (*others, factor * item, item),
    )
    return xp.matmul(windows, filters[..., None])[..., 0]


def complex128_filters(setting: Setting) -> Step:
    """A radar's filters become complex128 when they are built; all products follow."""
    xp = _library(setting)
    antennas, length = setting.size(20, 2), setting.size(250_000, 3000)
    taps, factor = setting.size(256, 32), 10
    draw = np.random.default_rng(0)
    noise = draw.standard_normal((4, antennas, length, 2), dtype=np.float32)
    samples = xp.asarray(noise.view(np.complex64)[..., 0])
    window = np.hamming(taps).astype(np.float32) / taps
    shifts = np.array([0.05, -0.11, 0.2])
    turning = [window * np.exp(2j * np.pi * shift * np.arange(taps)) for shift in shifts]
    filters = np.zeros((len(shifts), taps), np.complex64)
    for number, taken in enumerate(turning):
        filters[number] = taken
    bandpass = xp.asarray(np.array(turning) if setting.bad else filters)
    lowpass = xp.asarray(window[:64])

    def step(number: int) -> object:
        power = xp.zeros((antennas, antennas), np.float32)
        for beam in bandpass:
            first = _decimated(xp, samples[number % 4], beam, factor)
            second = _decimated(xp, first, lowpass, 5)
            crossed = second @ second.conj().T / second.shape[1]
            power += xp.abs(crossed)
        return power

    return step


def freed_pool(setting: Setting) -> Step:
    """Each measure of connectivity ends by returning all memory of the pool to the driver."""
    xp = _library(setting)
    bands, epochs = setting.size(4, 2), setting.size(24, 3)
    channels, length = setting.size(64, 4), setting.size(1024, 32)
    draw = np.random.default_rng(0)
    shape = (2, bands, epochs, channels, length)
    angles = draw.uniform(-np.pi, np.pi, shape).astype(np.float32)
    signal = xp.exp(1j * xp.asarray(angles)).astype(xp.complex64)
    orders = [xp.asarray(draw.permutation(epochs)) for _ in range(8)]

    def coupling(first: Any, second: Any) -> Any:
        """Return the circular correlation of all channels of both persons."""
        both = xp.concatenate([first, second], axis=-2)
        angle = xp.angle(both)
        middle = xp.angle(xp.mean(both, axis=-1, keepdims=True))
        deviation = xp.sin(angle - middle)
        shared = xp.matmul(deviation, deviation.swapaxes(-1, -2))
        size = xp.sum(deviation * deviation, axis=-1)
        found = shared / xp.sqrt(size[..., :, None] * size[..., None, :])
        found = found.mean(axis=1)
        if setting.bad and hasattr(xp, "get_default_memory_pool"):
            del both, angle, middle, deviation, shared, size
            xp.get_default_memory_pool().free_all_blocks()
        return found

    def step(number: int) -> object:
        total = 0
        for surrogate in range(4):
            order = orders[(number + surrogate) % 8]
            total = total + coupling(signal[0], signal[1][:, order])
        return total

    return step
