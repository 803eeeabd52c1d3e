"""A transformer of two layers in Keras, and how its traces are recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

VOCABULARY, LENGTH, BATCH = 200, 32, 8


class Block(keras.layers.Layer):
    """Attention and feed-forward, each with its sum and norm."""

    def __init__(self, width: int, heads: int, **facts: object) -> None:
        super().__init__(**facts)
        layers = keras.layers
        self.attention = layers.MultiHeadAttention(
            heads, width // heads, name="attention"
        )
        self.attention_norm = layers.LayerNormalization(name="attention_norm")
        self.intermediate = layers.Dense(
            4 * width, activation="gelu", name="intermediate"
        )
        self.output_dense = layers.Dense(width, name="output_dense")
        self.output_norm = layers.LayerNormalization(name="output_norm")
        self.dropout = layers.Dropout(0.1, name="dropout")

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Run it."""
        x = self.attention_norm(x + self.attention(x, x))
        hidden = self.output_dense(self.intermediate(x))
        return self.output_norm(x + self.dropout(hidden, training=training))


def transformer(layers: int = 2, width: int = 64, heads: int = 4) -> keras.Model:
    """A classifier of sequences with named layers."""
    tokens = keras.Input((LENGTH,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(VOCABULARY, width, name="embeddings")(tokens)
    for index in range(layers):
        x = Block(width, heads, name=f"layer_{index}")(x)
    x = keras.layers.GlobalAveragePooling1D(name="pooler")(x)
    logits = keras.layers.Dense(2, name="classifier")(x)
    return keras.Model(tokens, logits, name="transformer")


def shared(width: int = 32) -> keras.Model:
    """One block called twice, and layers that Keras names itself."""
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, width)(tokens)
    block = Block(width, 2, name="shared")
    x = block(block(x))
    x = keras.layers.Dense(width)(x)
    x = keras.layers.Dense(width)(x) + 1.0
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, keras.layers.Dense(2)(pooled))


def batches(count: int) -> tf.data.Dataset:
    """Made-up sequences and labels."""
    random = np.random.default_rng(0)
    tokens = random.integers(0, VOCABULARY, (count * BATCH, LENGTH), dtype=np.int32)
    labels = random.integers(0, 2, (count * BATCH,))
    return tf.data.Dataset.from_tensor_slices((tokens, labels)).batch(BATCH).prefetch(2)


def compiled(model: keras.Model, optimizer: object, jit: bool = False) -> keras.Model:
    """The model, ready to train."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=jit)
    return model


def _without_paths(trace: bytes) -> bytes:
    """A trace without the folders of this machine; every length stays what it was."""
    for folder in (sys.prefix, str(Path(__file__).parent)):
        trace = trace.replace(folder.encode(), b"-" * len(folder.encode()))
    return trace


def recorded(run: Callable[[], object]) -> bytes:
    """The trace of something that has run before."""
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
    )
    here = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)  # the trace says where it was written to
        try:
            tf.profiler.experimental.start("trace", options=options)
            run()
            tf.profiler.experimental.stop()
            (found,) = Path("trace").rglob("*.xplane.pb")
            return _without_paths(found.read_bytes())
        finally:
            os.chdir(here)
