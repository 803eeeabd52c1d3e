"""Configs and queries that are a little, or very, wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from irene.trace import catalogue

STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1, 10**6, 10**9, 10**18, 10**39, -(10**20), 0.5, 1e308, -0.0, "",
    "x", "<script>alert(1)</script>", "../../etc/passwd", "\x00", "\ud800", "🔥" * 50,
    "%00%0d%0a", "nan", "Infinity", "a" * 5000, [], [[]], {}, {"a": {"b": []}},
    [1] * 2000, {"auto_map": {"AutoModel": "x--y.Z"}}, "${jndi:ldap://x}", "'; DROP",
)  # fmt: skip
NAMES = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "vocab_size", "auto_map", "architectures", "torch_dtype", "quantization_config",
    "rope_scaling", "_name_or_path", "layer_types", "id2label", "intermediate_size",
    "schema", "tree", "__class__", "trust_remote_code", "attn_implementation",
    "max_position_embeddings",
)  # fmt: skip
PATHS = (
    "energy", "tree", "compare", "bottlenecks", "suggest", "cost", "what-if",
    "trade-off", "leaderboard", "models", "hardware", "provenance", "answers/x",
    "uploads/x", "jobs/x", "jobs/x/events", "regions",
)  # fmt: skip
PARAMETERS = (
    "model", "batch_size", "seq_len", "decoder_len", "context_len", "dtype",
    "attention", "phase", "hardware", "model_class", "subject", "format", "fold",
    "level", "per", "search", "limit", "set", "region", "target", "budget", "top",
)  # fmt: skip
QUERY_VALUES = (
    "bert-base-uncased", "gpt2@b16s256", "pc1", "0", "-1", "1e9",
    "99999999999999999999", "nan", "inf", "", " ", "true", "json", "csv", "upload:x",
    "upload:" + "0" * 32, "answer:" + "f" * 32, "../../../etc/passwd", "/etc/passwd",
    "~/.ssh/id_rsa", "<img src=x onerror=alert(1)>", "\x00", "\r\nSet-Cookie: a=b",
    "%2e%2e%2f", "owner/name", "http://169.254.169.254/", "a" * 300, "💥",
    "' OR 1=1 --", "file:///etc/passwd", "config.json", ".", "..", "[]", "{}",
    "fp32", "forward", "{{7*7}}", "$(id)",
)  # fmt: skip


def mutated_config(draw: random.Random) -> bytes:
    """A config of the catalogue after some accidents, or no config at all."""
    entry = draw.choice(ENTRIES)
    fields: dict[str, Any] = dict(entry.config)
    for _ in range(draw.randint(1, 4)):
        name = draw.choice((*fields, *NAMES))
        fields[name] = draw.choice(STRANGE)
    if draw.random() < 0.7:  # most are refused early
        fields["model_type"] = draw.choice(STRANGE)
    text = json.dumps(fields).encode()
    return draw.choice(ACCIDENTS)(text, draw)


def _cut(text: bytes, draw: random.Random) -> bytes:
    return text[: draw.randrange(len(text))]


def _flip(text: bytes, draw: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(draw.randint(1, 8)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def _noise(text: bytes, draw: random.Random) -> bytes:
    return draw.randbytes(draw.randint(1, 300))


def _not_numbers(text: bytes, draw: random.Random) -> bytes:
    return text.replace(b": 1", b": " + draw.choice((b"NaN", b"-Infinity", b"1e999")))


def _nested(text: bytes, draw: random.Random) -> bytes:
    depth = draw.choice((10, 50, 500, 5000))
    return b'{"model_type":"bert","a":' + b"[" * depth + b"]" * depth + b"}"


def _as_it_is(text: bytes, draw: random.Random) -> bytes:
    return text


ACCIDENTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _as_it_is, _as_it_is, _cut, _flip, _flip, _noise, _not_numbers, _nested,
)  # fmt: skip
ENTRIES = tuple(catalogue.entries().values())


def mutated_query(draw: random.Random) -> str:
    """A path of the API with parameters that do not belong together."""
    path = f"/api/v1/{draw.choice(PATHS)}"
    if draw.random() < 0.1:
        path += "/" + quote(draw.choice(QUERY_VALUES), safe="/.%")
    pairs = [
        f"{draw.choice(PARAMETERS)}={quote(draw.choice(QUERY_VALUES), safe='%')}"
        for _ in range(draw.randint(1, 5))
    ]
    if draw.random() < 0.9:  # at least one that no endpoint knows or takes
        pairs.append(draw.choice(("no_such=1", "batch_size=zero", "seq_len=-5")))
    return f"{path}?{'&'.join(pairs)}"


def mutated_job(draw: random.Random) -> bytes:
    """A job that should not be accepted."""
    body: dict[str, Any] = {"kind": "predict", "model": "no-such-model"}
    for _ in range(draw.randint(1, 4)):
        name = draw.choice(("kind", "model", "notify", "hardware", *PARAMETERS))
        body[name] = draw.choice(STRANGE)
    if body["model"] == "no-such-model" or draw.random() < 0.5:
        body["batch_size"] = draw.choice((0, -1, "x", 10**12, 1.5, []))
    return draw.choice(ACCIDENTS)(json.dumps(body).encode(), draw)
