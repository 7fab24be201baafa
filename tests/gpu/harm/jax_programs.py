"""JAX programs of the harm test, on whole numbers: python -m gpu.harm.jax_programs NAME.

Which operations become part of a command buffer, and so of a CUDA graph, XLA_FLAGS decide.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gpu.harm.telling import STEPS, run, tell, tell_checksum

Array = Any


def tell_arrays(name: str, *arrays: Array) -> None:
    """Print a checksum of the arrays' memory."""
    tell_checksum(name, (np.ascontiguousarray(np.asarray(one)).tobytes() for one in arrays))


def start(rows: int = 256) -> Array:
    """Return a square of whole numbers."""
    return (jnp.arange(rows * rows, dtype=jnp.int32).reshape(rows, rows) * 7919) % 1009


def mix(x: Array, salt: Array) -> Array:
    """Do what takes a few kernels."""
    y = jnp.roll(x, 3, axis=0) * 5 + salt
    z = jnp.cumsum(y, axis=1) + y.sum(axis=0, keepdims=True)
    return (jnp.sort(z, axis=1) ^ x) % 65521


def while_loop() -> None:
    """A loop whose end the data decide."""

    @jax.jit
    def loop(x: Array, limit: Array) -> tuple[Array, Array]:
        def goes_on(state: tuple[Array, Array]) -> Array:
            return (state[1] < limit) & (state[0][0, 0] >= 0)

        def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return mix(state[0], state[1]), state[1] + 1

        result: tuple[Array, Array] = jax.lax.while_loop(goes_on, body, (x, jnp.int32(0)))
        return result

    x = start()
    for number in range(STEPS):
        x, rounds = loop(x, jnp.int32(5 + number % 3))
        tell(f"step {number} rounds {int(rounds)}")
    tell_arrays("x", x)


def scan() -> None:
    """lax.scan, with results stacked, and a fori_loop within."""

    @jax.jit
    def steps(x: Array) -> tuple[Array, Array]:
        def step(carry: Array, salt: Array) -> tuple[Array, Array]:
            carry = jax.lax.fori_loop(0, 3, lambda i, y: mix(y, salt + i), carry)
            return carry, carry.sum()

        result: tuple[Array, Array] = jax.lax.scan(step, x, jnp.arange(10, dtype=jnp.int32))
        return result

    x = start()
    for number in range(STEPS):
        x, sums = steps(x)
        tell(f"step {number} sums {np.asarray(sums).tolist()}")
    tell_arrays("x", x)


def cond() -> None:
    """lax.cond and lax.switch, decided by the data."""

    @jax.jit
    def step(x: Array, salt: Array) -> Array:
        x = jax.lax.cond(x.sum() % 2 == 0, lambda y: mix(y, salt), lambda y: mix(y.T, 3), x)
        branches = [lambda y, n=n: mix(y, n) for n in range(3)]
        return jax.lax.switch(x[1, 1] % 3, branches, x)

    x = start()
    for number in range(4 * STEPS):
        x = step(x, jnp.int32(number))
    tell_arrays("x", x)


def gradients() -> None:
    """A step with gradients, donated buffers and products of small whole numbers."""

    def loss_of(weights: tuple[Array, Array], x: Array, target: Array) -> Array:
        return ((jax.nn.relu(x @ weights[0]) @ weights[1]) * target).sum()

    def step(weights: tuple[Array, Array], x: Array, target: Array) -> tuple[Any, Array]:
        loss, grads = jax.value_and_grad(loss_of)(weights, x, target)
        signs = jax.tree.map(jnp.sign, grads)
        update = jax.tree.map(lambda w, s: jnp.clip(w - s, -2, 2), weights, signs)
        return update, loss

    def whole(seed: int, *shape: int) -> Array:
        key = jax.random.PRNGKey(seed)
        return jax.random.randint(key, shape, -1, 2).astype(jnp.float32)

    stepped = jax.jit(step, donate_argnums=0)
    weights, target = (whole(1, 64, 128), whole(2, 128, 16)), whole(3, 32, 16)
    for number in range(2 * STEPS):
        weights, loss = stepped(weights, whole(10 + number, 32, 64), target)
        tell(f"step {number} loss {int(loss)}")
    tell_arrays("weights", *weights)


PROGRAMS = (while_loop, scan, cond, gradients)

if __name__ == "__main__":
    run({program.__name__: program for program in PROGRAMS})
