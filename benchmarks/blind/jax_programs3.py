"""A third set of programs in JAX; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # both variants share the GPU

import jax
import jax.numpy as jnp
from blind.harness import Setting, Step
from blind.jax_programs import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from jax import lax

Arrays = dict[str, jax.Array]


def serial_series(setting: Setting) -> Step:
    """A reservoir computes a batch of time series one at a time, as lax.map does."""
    series, length = setting.size(64, 4), setting.size(100, 12)
    units, readouts = setting.size(500, 16), 8
    keys = jax.random.split(jax.random.key(0), 4)
    within = jax.random.normal(keys[0], (units, units)) * 0.9 * units**-0.5
    entering = jax.random.normal(keys[1], (units, 1))
    leaving = jax.random.normal(keys[2], (readouts, units)) * units**-0.5
    inputs = jax.random.normal(keys[3], (8, series, length, 1))
    high = lax.Precision.HIGHEST

    def run(values: jax.Array) -> jax.Array:
        def follow(state: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
            change = jnp.matmul(within, state, precision=high) + entering @ value
            state = 0.7 * state + 0.3 * jnp.tanh(change)
            return state, state

        _, states = lax.scan(follow, jnp.zeros(units), values)
        return jnp.matmul(states, leaving.T, precision=high)

    @jax.jit
    def run_all(values: jax.Array) -> jax.Array:
        return lax.map(run, values) if setting.bad else jax.vmap(run)(values)

    def step(number: int) -> jax.Array:
        return run_all(inputs[number % 8])

    return step


def _encoded(weights: Arrays, name: str, x: jax.Array) -> jax.Array:
    for layer in range(3):
        x = jax.nn.swish(x @ weights[f"{name}{layer}"])
    return x @ weights[f"{name}3"]


def broadcast_energies(setting: Setting) -> Step:
    """A contrastive critic subtracts every pair of vectors instead of multiplying matrices."""
    batch, wide = setting.size(2048, 12), setting.size(1024, 16)
    observed, acted, wanted = 32, 8, 32
    widths = {"state": observed + acted, "goal": wanted}
    keys = iter(jax.random.split(jax.random.key(0), 16))
    weights: Arrays = {}
    for name, first in widths.items():
        for layer in range(4):
            shape = (first if layer == 0 else wide, wide)
            weights[f"{name}{layer}"] = jax.random.normal(next(keys), shape) * shape[0] ** -0.5
    states = jax.random.normal(next(keys), (8, batch, observed + acted))
    goals = jax.random.normal(next(keys), (8, batch, wanted))

    def energies(first: jax.Array, second: jax.Array) -> jax.Array:
        """Return the negative distance of each pair, (batch, batch)."""
        if setting.bad:
            apart = first[:, None, :] - second[None, :, :]
            return -jnp.sqrt(jnp.sum(apart**2, axis=-1) + 1e-6)
        shared = jnp.matmul(first, second.T, precision=lax.Precision.HIGHEST)
        sizes = jnp.sum(first**2, -1)[:, None] + jnp.sum(second**2, -1)
        return -jnp.sqrt(jnp.maximum(sizes - 2 * shared, 0) + 1e-6)

    def loss_of(weights: Arrays, state: jax.Array, goal: jax.Array) -> jax.Array:
        with jax.default_matmul_precision("float32"):
            logits = energies(_encoded(weights, "state", state), _encoded(weights, "goal", goal))
        own = jnp.diag(logits)
        rows, columns = (jax.nn.logsumexp(logits, axis) for axis in (1, 0))
        return -jnp.mean(2 * own - rows - columns) + 0.1 * jnp.mean(rows**2)

    @jax.jit
    def train(weights: Arrays, state: jax.Array, goal: jax.Array) -> tuple[jax.Array, Arrays]:
        loss, slopes = jax.value_and_grad(loss_of)(weights, state, goal)
        return loss, {name: weights[name] - 3e-4 * slopes[name] for name in weights}

    kept = [weights]

    def step(number: int) -> jax.Array:
        loss, kept[0] = train(kept[0], states[number % 8], goals[number % 8])
        return loss

    return step
