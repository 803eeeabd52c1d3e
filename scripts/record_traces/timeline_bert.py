"""One training step of a small BERT, in the manner of TensorFlow 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client import timeline

v1 = tf.compat.v1
BATCH, LENGTH, VOCABULARY, WIDTH = 8, 32, 200, 64


def dense(
    x: tf.Tensor, width: int, name: str, activation: Callable[..., Any] = tf.identity
) -> tf.Tensor:
    """A dense layer."""
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [x.shape[-1], width])
        bias = v1.get_variable("bias", [width], initializer=v1.zeros_initializer())
        return activation(tf.nn.bias_add(tf.tensordot(x, kernel, 1), bias))


def norm(x: tf.Tensor) -> tf.Tensor:
    """Layer normalisation."""
    with v1.variable_scope("LayerNorm"):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        ones = v1.ones_initializer()
        gamma = v1.get_variable("gamma", [x.shape[-1]], initializer=ones)
        return tf.nn.batch_normalization(x, mean, variance, None, gamma, 1e-6)


def layer(x: tf.Tensor) -> tf.Tensor:
    """Attention and feed-forward."""
    with v1.variable_scope("attention"):
        with v1.variable_scope("self"):
            query, key, value = (dense(x, WIDTH, n) for n in ("query", "key", "value"))
            scores = tf.matmul(query, key, transpose_b=True) / 8.0
            context = tf.matmul(tf.nn.softmax(scores), value)
        with v1.variable_scope("output"):
            x = norm(x + dense(context, WIDTH, "dense"))
    with v1.variable_scope("intermediate"):
        hidden = dense(x, 4 * WIDTH, "dense", tf.nn.relu)
    with v1.variable_scope("output"):
        return norm(x + dense(hidden, WIDTH, "dense"))


def bert(tokens: tf.Tensor) -> tf.Tensor:
    """Two layers and a classifier."""
    with v1.variable_scope("bert"):
        with v1.variable_scope("embeddings"):
            table = v1.get_variable("word_embeddings", [VOCABULARY, WIDTH])
            x = tf.nn.embedding_lookup(table, tokens)
        with v1.variable_scope("encoder"):
            for index in range(2):
                with v1.variable_scope(f"layer_{index}"):
                    x = layer(x)
        with v1.variable_scope("pooler"):
            x = dense(x[:, 0], WIDTH, "dense", tf.tanh)
    return dense(x, 2, "classifier")


def record_step() -> dict[str, Any]:
    """The timeline of the second step, as `ProfilerHook` would write it."""
    v1.disable_eager_execution()
    tokens = v1.placeholder(tf.int32, [BATCH, LENGTH], name="tokens")
    labels = v1.placeholder(tf.int32, [BATCH], name="labels")
    logits = bert(tokens)
    with v1.name_scope("loss"):
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(each)
    train = v1.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.default_rng(0)
    feed = {
        tokens: random.integers(0, VOCABULARY, (BATCH, LENGTH)),
        labels: random.integers(0, 2, BATCH),
    }
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train, feed)
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        metadata = v1.RunMetadata()
        session.run(train, feed, options=options, run_metadata=metadata)
    made = timeline.Timeline(metadata.step_stats)
    return json.loads(made.generate_chrome_trace_format())
