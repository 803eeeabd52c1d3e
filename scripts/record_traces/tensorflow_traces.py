"""Record the traces of TensorFlow: `python tensorflow_traces.py FOLDER [NAME …]`."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import keras
import tensorflow as tf
from keras_transformer import batches, compiled, recorded, shared, transformer


def keras_fit() -> bytes:
    """Two steps of `fit`."""
    model = compiled(transformer(), keras.optimizers.AdamW(1e-3))
    model.fit(batches(3), verbose=0)
    return recorded(lambda: model.fit(batches(2), verbose=0))


def keras_compiled() -> bytes:
    """Two steps of `fit`, compiled by XLA."""
    model = compiled(transformer(1, 32, 2), keras.optimizers.SGD(1e-2), jit=True)
    model.fit(batches(3), verbose=0)
    return recorded(lambda: model.fit(batches(2), verbose=0))


def keras_shared() -> bytes:
    """One step of a training loop of one's own."""
    model, loss = shared(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(1e-2, momentum=0.9)

    @tf.function
    def step(tokens: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(labels, model(tokens, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(value, weights), weights, strict=True)
        )
        return value

    (batch,) = batches(1)
    step(*batch)

    def marked() -> None:
        with tf.profiler.experimental.Trace("train", step_num=7, _r=1):
            step(*batch)

    return recorded(marked)


def timeline() -> bytes:
    """One step of TensorFlow 1."""
    from timeline_bert import record_step

    return json.dumps(record_step(), separators=(",", ":")).encode()


FILES = {
    "keras_fit.xplane.pb": keras_fit,
    "keras_shared.xplane.pb": keras_shared,
    "keras_compiled.xplane.pb": keras_compiled,
    "timeline-1.json": timeline,  # last: it turns eager execution off
}


def main(folder: Path, names: list[str]) -> None:
    """Record all, or some."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in FILES.items():
        if not names or name in names:
            keras.utils.set_random_seed(0)
            keras.backend.clear_session()
            path = folder / f"{name}.gz"
            path.write_bytes(gzip.compress(record(), 9, mtime=0))
            print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
