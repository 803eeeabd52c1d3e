"""Record the trace of JAX: `python jax_trace.py FOLDER`."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The program would else say where its source was.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")

WIDTH, LAYERS, VOCABULARY = 32, 2, 200


def weights(seed: int = 0) -> dict[str, Any]:
    """Weights of a classifier of sequences."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> jax.Array:
        return jnp.asarray(random.normal(0, 0.05, (rows, columns)), jnp.float32)

    layers = [
        {name: matrix(WIDTH, WIDTH) for name in ("query", "key", "value", "output")}
        | {"up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH)}
        for _ in range(LAYERS)
    ]
    embed = matrix(VOCABULARY, WIDTH)
    return {"embed": embed, "layers": layers, "head": matrix(WIDTH, 2)}


def dense(layer: dict[str, jax.Array], name: str, x: jax.Array) -> jax.Array:
    """A matrix product in a scope of its own."""
    with jax.named_scope(name):
        return x @ layer[name]


def norm(x: jax.Array) -> jax.Array:
    """Layer normalisation."""
    with jax.named_scope("norm"):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def block(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Attention and feed-forward."""
    with jax.named_scope("attention"):
        query, key, value = (dense(layer, n, x) for n in ("query", "key", "value"))
        scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", query, key) / 8.0)
        context = jnp.einsum("bqk,bkd->bqd", scores, value)
        x = norm(x + dense(layer, "output", context))
    with jax.named_scope("mlp"):
        hidden = jax.nn.relu(dense(layer, "up", x))
        return norm(x + dense(layer, "down", hidden))


def loss(model: dict[str, Any], tokens: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross-entropy of the labels."""
    with jax.named_scope("embed"):
        x = model["embed"][tokens]
    for index, layer in enumerate(model["layers"]):
        with jax.named_scope(f"layer_{index}"):
            x = block(layer, x)
    logits = dense(model, "head", x.mean(1))
    with jax.named_scope("loss"):
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -chosen.mean()


def train_step(
    model: dict[str, Any], momentum: dict[str, Any], tokens: Any, labels: Any
) -> tuple[Any, Any, jax.Array]:
    """One step of stochastic gradient descent with momentum."""
    value, gradient = jax.value_and_grad(loss)(model, tokens, labels)
    with jax.named_scope("optimizer"):
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        model = jax.tree.map(lambda w, m: w - 1e-2 * m, model, momentum)
    return model, momentum, value


def record() -> tuple[bytes, str]:
    """The trace of two steps, and the text of the compiled step."""
    random = np.random.default_rng(0)
    tokens = random.integers(0, VOCABULARY, (8, 16))
    labels = random.integers(0, 2, 8)
    model = weights()
    momentum = jax.tree.map(jnp.zeros_like, model)
    step = jax.jit(train_step).lower(model, momentum, tokens, labels).compile()
    model, momentum, value = jax.block_until_ready(
        step(model, momentum, tokens, labels)
    )
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 2, 0
    with TemporaryDirectory() as folder:
        os.chdir(folder)  # the trace says where it was written to
        jax.profiler.start_trace("trace", profiler_options=options)
        for number in range(2):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                model, momentum, value = step(model, momentum, tokens, labels)
                jax.block_until_ready(value)
        jax.profiler.stop_trace()
        (found,) = Path("trace").rglob("*.xplane.pb")
        return found.read_bytes(), step.as_text()


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    trace, text = record()
    for name, data in (
        ("jax_step.xplane.pb.gz", trace),
        ("jax_step.hlo.txt.gz", text.encode()),
    ):
        (target / name).write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{name}: {(target / name).stat().st_size:,} bytes")
