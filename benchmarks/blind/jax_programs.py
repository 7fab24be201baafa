"""Programs in JAX; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # both variants share the GPU

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blind.harness import Setting, Step
from jax import lax

Arrays = dict[str, jax.Array]


class Jax:
    """JAX as a framework of the harness."""

    def seed(self, number: int) -> None:
        """Do nothing: programs have their own keys."""

    def finish(self, result: object) -> None:
        """Wait until a result is there; work runs in order."""
        jax.block_until_ready(result)

    def array(self, result: Any) -> Any:
        """Return a result as an array."""
        return np.asarray(result)


FRAMEWORK = Jax()


def _weights(key: jax.Array, width: int, layers: int) -> Arrays:
    found = {}
    for layer in range(layers):
        key, first, second = jax.random.split(key, 3)
        scale = width**-0.5
        found[f"up{layer}"] = jax.random.normal(first, (width, 2 * width)) * scale
        found[f"down{layer}"] = jax.random.normal(second, (2 * width, width)) * scale / 2
        found[f"bias{layer}"] = jnp.zeros(2 * width)
        found[f"scale{layer}"] = jnp.ones(width)
    return found


def _loss(weights: Arrays, x: jax.Array, wanted: jax.Array, layers: int) -> jax.Array:
    for layer in range(layers):
        y = x * weights[f"scale{layer}"]
        y = jax.nn.gelu(y @ weights[f"up{layer}"] + weights[f"bias{layer}"])
        x = x + y @ weights[f"down{layer}"]
    return jnp.mean((x - wanted) ** 2)


def _adam(
    weights: Arrays, gradients: Arrays, first: Arrays, second: Arrays, count: jax.Array
) -> tuple[Arrays, Arrays, Arrays]:
    """Return weights and moments after a step of Adam."""
    map_leaves = jax.tree_util.tree_map
    first = map_leaves(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = map_leaves(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradients)
    right, spread = 1 - 0.9**count, 1 - 0.999**count
    changes = map_leaves(
        lambda m, v: -1e-4 * (m / right) / (jnp.sqrt(v / spread) + 1e-8), first, second
    )
    return map_leaves(jnp.add, weights, changes), first, second


def unjitted_update(setting: Setting) -> Step:
    """The loss is compiled, but the optimizer's update runs operation by operation."""
    width, layers = setting.size(1024, 16), setting.size(8, 2)
    keys = jax.random.split(jax.random.key(0), 3)
    weights = _weights(keys[0], width, layers)
    x = jax.random.normal(keys[1], (setting.size(2048, 4), width))
    wanted = jax.random.normal(keys[2], x.shape)
    gradient = jax.jit(jax.value_and_grad(partial(_loss, layers=layers)))
    update = _adam if setting.bad else jax.jit(_adam)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    state = [weights, zeros, zeros]

    def step(number: int) -> jax.Array:
        loss, gradients = gradient(state[0], x, wanted)
        state[:] = update(state[0], gradients, state[1], state[2], jnp.float32(number + 1))
        return loss + 0 * state[0]["bias0"][0]

    return step


def small_scan(setting: Setting) -> Step:
    """A scan runs a tiny kernel per time step; its loop is not unrolled."""
    steps, rows = setting.size(2048, 32), setting.size(4096, 8)
    rewards = jax.random.normal(jax.random.key(0), (8, steps, rows))

    @jax.jit
    def advantages(reward: jax.Array) -> jax.Array:
        def body(carry: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
            carry = now + 0.99 * 0.95 * carry
            return carry, carry

        unroll = 1 if setting.bad else 32
        _, found = lax.scan(body, jnp.zeros(rows), reward, reverse=True, unroll=unroll)
        return found - found.mean()

    return lambda number: advantages(rewards[number % 8])
