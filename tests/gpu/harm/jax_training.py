"""Trains six residual blocks with JAX: XLA's command buffers make CUDA graphs of each step.

Usage: python jax_training.py [--steps 12] [--exact] [--small]

XLA times the matrix products that it may choose from, so that two runs need not agree to the last
bit: without --exact only the steps are told, and whether the loss is finite and fell. With --exact
nothing is chosen by the clock, and the losses and a checksum of the parameters are printed.
--small is for a try without a GPU.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import zlib
from typing import Any

EXACT_FLAGS = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    if args.exact:
        # XLA reads them when JAX is imported.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {EXACT_FLAGS}".strip()
    rows, hidden, width = (64, 64, 32) if args.small else (4096, 4096, 1024)
    losses, parameters = train(args.steps, rows, hidden, width)
    if args.exact:
        for number, loss in enumerate(losses):
            print(f"step {number} loss {loss.hex()}")
        print(f"checksum {checksum(parameters):08x}")
    finite, fell = all(map(math.isfinite, losses)), losses[-1] < losses[0]
    print(f"steps {len(losses)} finite {finite} fell {fell}")


def train(steps: int, rows: int, hidden: int, width: int) -> tuple[list[float], Any]:
    """Return the loss of each step and the parameters after the last."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.LayerNorm()(x)
            y = nn.gelu(nn.Dense(hidden)(y))
            return x + nn.Dense(width)(y)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for _ in range(6):
                x = Block()(x)
            return x

    model, optimizer = Model(), optax.adamw(1e-3)
    keys = jax.random.split(jax.random.PRNGKey(7), 3)
    x = jax.random.normal(keys[0], (rows, width))
    target = jax.random.normal(keys[1], (rows, width))
    parameters = model.init(keys[2], x)
    state = optimizer.init(parameters)

    def loss_of(parameters: Any, x: Any, target: Any) -> Any:
        return jnp.mean((model.apply(parameters, x) - target) ** 2)

    @jax.jit
    def step(parameters: Any, state: Any, x: Any, target: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, target)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    losses = []
    for _ in range(steps):
        parameters, state, loss = step(parameters, state, x, target)
        losses.append(float(loss))
    return losses, parameters


def checksum(tree: Any) -> int:
    """Return the CRC-32 of all arrays of a tree, in its order."""
    import jax
    import numpy as np

    total = 0
    for leaf in jax.tree_util.tree_leaves(tree):
        total = zlib.crc32(np.ascontiguousarray(np.asarray(leaf)).tobytes(), total)
    return total


if __name__ == "__main__":
    main()
    sys.stdout.flush()
