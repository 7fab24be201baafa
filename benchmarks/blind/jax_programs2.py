"""More programs in JAX; docstrings describe the problem of the bad variant."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # both variants share the GPU

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from blind.harness import Setting, Step
from blind.jax_programs import FRAMEWORK as FRAMEWORK  # noqa: PLC0414 - for run.py
from jax import lax

Arrays = dict[str, jax.Array]


def _inverse(matrix: jax.Array) -> jax.Array:
    """Return the inverses of symmetric matrices, (..., 3, 3), from their cofactors."""
    a, b, c = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 0, 2]
    d, e, f = matrix[..., 1, 1], matrix[..., 1, 2], matrix[..., 2, 2]
    first, second, third = d * f - e * e, c * e - b * f, b * e - c * d
    rows = [
        [first, second, third],
        [second, a * f - c * c, b * c - a * e],
        [third, b * c - a * e, a * d - b * b],
    ]
    whole = jnp.stack([jnp.stack(row, -1) for row in rows], -2)
    return whole / (a * first + b * second + c * third)[..., None, None]


def small_inverses(setting: Setting) -> Step:
    """Newton's method inverts a 3 by 3 matrix per trial with the general solver."""
    trials, iterations = setting.size(200_000, 50), 6
    keys = jax.random.split(jax.random.key(0), 3)
    patients = jnp.full((trials, 3), 40.0)
    successes = jax.random.uniform(keys[0], (8, trials, 3)) * 40
    spread = jax.random.uniform(keys[1], (trials,), minval=0.2, maxval=2.0)
    prior = jnp.eye(3) / spread[:, None, None] - 0.05
    inverse = jnp.linalg.inv if setting.bad else _inverse

    @jax.jit
    def modes(seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        def newton(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            chance = jax.nn.sigmoid(x)
            slope = seen - patients * chance - jnp.einsum("tij,tj->ti", prior, x)
            curvature = jnp.eye(3) * (patients * chance * (1 - chance))[:, None] + prior
            return x + 0.8 * jnp.einsum("tij,tj->ti", inverse(curvature), slope), None

        x, _ = lax.scan(newton, jnp.zeros((trials, 3)), None, length=iterations)
        chance = jax.nn.sigmoid(x)
        curvature = jnp.eye(3) * (patients * chance * (1 - chance))[:, None] + prior
        return x, jnp.diagonal(inverse(curvature), axis1=-2, axis2=-1)

    def step(number: int) -> jax.Array:
        middle, variance = modes(successes[number % 8])
        return middle + jnp.sqrt(variance)

    return step


def _q_values(weights: Arrays, images: jax.Array) -> jax.Array:
    """Return the value of each action for images, (batch, height, width, frames)."""
    x = images.astype(jnp.float32) / 255
    for name, stride in (("conv0", 4), ("conv1", 2), ("conv2", 1)):
        x = lax.conv_general_dilated(
            x, weights[name], (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    x = jax.nn.relu(x.reshape(len(x), -1) @ weights["dense"])
    return x @ weights["head"]


def _q_weights(key: jax.Array, edge: int) -> Arrays:
    inner = ((edge - 8) // 4 + 1 - 4) // 2 + 1 - 2
    shapes = {
        "conv0": (8, 8, 4, 32),
        "conv1": (4, 4, 32, 64),
        "conv2": (3, 3, 64, 64),
        "dense": (inner * inner * 64, 512),
        "head": (512, 6),
    }
    keys = jax.random.split(key, len(shapes))
    found = {}
    for (name, shape), own in zip(shapes.items(), keys, strict=True):
        scale = (2 / jnp.prod(jnp.array(shape[:-1]))) ** 0.5
        found[name] = jax.random.normal(own, shape) * scale
    return found


def undonated_replay(setting: Setting) -> Step:
    """A training step that adds to a replay buffer copies it, as its argument is not donated."""
    capacity, edge = setting.size(65_536, 64), setting.size(84, 36)
    added, batch = setting.size(64, 4), setting.size(256, 4)
    keys = jax.random.split(jax.random.key(0), 3)
    frames = jax.random.bits(keys[0], (2, capacity // 16, edge, edge, 4), jnp.uint8)
    buffer = {
        "image": jnp.tile(frames[0], (16, 1, 1, 1)),
        "next": jnp.tile(frames[1], (16, 1, 1, 1)),
        "action": jnp.arange(capacity) % 6,
        "reward": jnp.sin(jnp.arange(capacity) * 0.1),
    }
    fresh = {name: values[: 8 * added] for name, values in buffer.items()}

    def learn(weights: Arrays, seen: Arrays) -> tuple[jax.Array, Arrays]:
        best = seen["reward"] + 0.99 * _q_values(weights, seen["next"]).max(-1)

        def loss_of(weights: Arrays) -> jax.Array:
            values = _q_values(weights, seen["image"])
            chosen = jnp.take_along_axis(values, seen["action"][:, None], -1)[:, 0]
            return jnp.mean((chosen - lax.stop_gradient(best)) ** 2)

        loss, slopes = jax.value_and_grad(loss_of)(weights)
        return loss, {name: weights[name] - 1e-3 * slopes[name] for name in weights}

    @partial(jax.jit, donate_argnums=() if setting.bad else (1,))
    def train(
        weights: Arrays, buffer: Arrays, new: Arrays, number: jax.Array
    ) -> tuple[jax.Array, Arrays, Arrays]:
        place = number * added % capacity
        buffer = {
            name: lax.dynamic_update_slice_in_dim(values, new[name], place, 0)
            for name, values in buffer.items()
        }
        chosen = jax.random.randint(jax.random.fold_in(keys[1], number), (batch,), 0, capacity)
        loss, weights = learn(weights, {name: values[chosen] for name, values in buffer.items()})
        return loss, weights, buffer

    state: list[Any] = [_q_weights(keys[2], edge), buffer]
    del buffer

    def step(number: int) -> jax.Array:
        first = number % 8 * added
        new = {name: values[first : first + added] for name, values in fresh.items()}
        loss, state[0], state[1] = train(state[0], state[1], new, jnp.int32(number))
        return loss

    return step


def _decoder(key: jax.Array, width: int, layers: int, vocabulary: int) -> Arrays:
    shapes = {"tokens": (vocabulary, width)}
    for layer in range(layers):
        shapes |= {f"qkv{layer}": (width, 3 * width), f"out{layer}": (width, width)}
        shapes |= {f"up{layer}": (width, 4 * width), f"down{layer}": (4 * width, width)}
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(own, shape) * (1.0 if name == "tokens" else shape[0] ** -0.5)
        for (name, shape), own in zip(shapes.items(), keys, strict=True)
    }


def _next_token(
    weights: Arrays, cache: jax.Array, token: jax.Array, place: jax.Array, heads: int
) -> tuple[jax.Array, jax.Array]:
    """Return the next token and the cache, (layers, 2, length, width), with this one's keys."""
    product = partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    layers, _, length, width = cache.shape
    norm = partial(jax.nn.standardize, axis=-1)
    x = weights["tokens"][token] + 0.1 * jnp.sin(place * jnp.arange(width) / width)
    for layer in range(layers):
        asked, *kept = jnp.split(product(norm(x), weights[f"qkv{layer}"]), 3)
        own = jnp.stack(kept)[None, :, None]
        cache = lax.dynamic_update_slice(cache, own, (layer, 0, place, 0))
        keys, values = cache[layer].reshape(2, length, heads, -1)
        score = jnp.sum(keys * asked.reshape(heads, -1), -1) * (width // heads) ** -0.5
        score = jnp.where(jnp.arange(length)[:, None] <= place, score, -jnp.inf)
        found = jnp.sum(jax.nn.softmax(score, 0)[..., None] * values, 0)
        x = x + product(found.reshape(width), weights[f"out{layer}"])
        y = jax.nn.gelu(product(norm(x), weights[f"up{layer}"]))
        x = x + product(y, weights[f"down{layer}"])
    return jnp.argmax(product(weights["tokens"], norm(x))).astype(jnp.int32), cache


def host_decode(setting: Setting) -> Step:
    """The decoding loop runs in Python, which reads each token to see whether the text ends."""
    width, layers = setting.size(512, 32), setting.size(8, 2)
    vocabulary, count = setting.size(8192, 50), setting.size(64, 8)
    heads, last = width // 16, -1  # weights are random: no text ends early
    weights = _decoder(jax.random.key(0), width, layers, vocabulary)
    follow = jax.jit(partial(_next_token, heads=heads), donate_argnums=(1,))

    @jax.jit
    def decode(weights: Arrays, token: jax.Array) -> jax.Array:
        def goes_on(state: tuple[jax.Array, ...]) -> jax.Array:
            _, _, token, place = state
            return (place < count) & (token != last)

        def extend(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            found, cache, token, place = state
            token, cache = _next_token(weights, cache, token, place, heads)
            return found.at[place].set(token), cache, token, place + 1

        cache = jnp.zeros((layers, 2, count, width))
        found = jnp.zeros(count, jnp.int32)
        return lax.while_loop(goes_on, extend, (found, cache, token, jnp.int32(0)))[0]

    def step(number: int) -> Any:
        token = jnp.int32(number % vocabulary)
        if not setting.bad:
            return jax.device_get(decode(weights, token))
        cache = jnp.zeros((layers, 2, count, width))
        found: list[int] = []
        while len(found) < count:
            token, cache = follow(weights, cache, token, jnp.int32(len(found)))
            found.append(int(token))
            if found[-1] == last:
                break
        return found

    return step
