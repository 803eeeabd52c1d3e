from __future__ import annotations

import contextlib
import gzip
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import ConfigError, FormatError, IreneError, LimitError
from irene.serve.store import open_store
from irene.serve.store.engine import key_of
from irene.serve.uploads.bounded_json import parse, unpacked
from irene.serve.uploads.documents import (
    known_model_types,
    read_document,
    readable_name,
)
from irene.serve.uploads.storage import Uploads
from irene.trace.model_files import read_model_file
from irene.tree import ModelTree, Signature, TreeBuilder

from ...trace.test_model_files import config_of, write_gguf

MOST = 1_000_000
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(
    allow_nan=False, allow_infinity=False
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
CONFIG = {"model_type": "bert", "num_hidden_layers": 2}


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def small_tree() -> ModelTree:
    builder = TreeBuilder()
    root = builder.add(-1, "", "model", "Model")
    builder.add(
        root, "layer", "ml", "Linear", flops=6, signature=Signature(((2, 3),), (), "f")
    )
    return builder.build()


def tree_with(**changes: Any) -> bytes:
    """A tree's document whose leaf says something else."""
    document = small_tree().to_dict()
    document["tree"]["children"][0] |= changes
    return text(document)


# JSON ---------------------------------------------------------------------------


@given(VALUES)
def test_ordinary_json_is_read_as_it_is(value: Any) -> None:
    assert parse(text(value)) == value


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(IreneError):
        read_document(body, MOST)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"[" * 201 + b"]" * 201,
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b"[" + b"[]," * 3_000_000 + b"[]]",
    ],
    ids=["unclosed", "deep", "deep-objects", "many"],
)
def test_a_json_bomb_is_refused(body: bytes) -> None:
    with pytest.raises(LimitError, match=r"levels deep|values"):
        parse(body)


def test_brackets_in_strings_are_not_depth() -> None:
    body = text({"a": '[{\\"' * 1000})
    assert parse(body) == json.loads(body)


@pytest.mark.parametrize(
    "body",
    [b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"9" * 41, b"9" * 100_000, b"\xff"],
)
def test_numbers_that_json_does_not_have_are_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        parse(body)


# Packed files -------------------------------------------------------------------


def test_a_gzipped_file_is_its_content() -> None:
    assert unpacked(gzip.compress(text(CONFIG)), MOST) == text(CONFIG)


def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(100 * MOST))
    assert len(bomb) < MOST
    with pytest.raises(LimitError, match="unpacks to more"):
        unpacked(bomb, MOST)


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(b"{}")[:-4],
        gzip.compress(b"{}") + b"more",
        gzip.compress(gzip.compress(b"{}")),
        b"\x1f\x8b broken",
        b"PK\x03\x04zip",
        pickle.dumps({}),
    ],
    ids=["cut", "tail", "twice", "broken", "zip", "pickle"],
)
def test_other_packed_data_are_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        unpacked(body, MOST)


# Documents ----------------------------------------------------------------------


def test_a_config_is_known_by_its_model_type() -> None:
    assert read_document(text(CONFIG), MOST).kind == "config"
    assert read_document(gzip.compress(text(CONFIG)), MOST).body == text(CONFIG)


def test_of_a_gguf_file_the_config_is_kept(tmp_path: Path) -> None:
    config = config_of("llama-3.2-1b")
    file = write_gguf(tmp_path / "m.gguf", "llama", config, "Q4_K")
    found = read_document(file.read_bytes(), MOST)
    assert found.kind == "config"
    assert json.loads(found.body) == read_model_file(file)
    with pytest.raises(ConfigError, match="cut short or damaged"):
        read_document(file.read_bytes()[:200], MOST)


def test_files_that_hold_no_model_say_what_to_bring() -> None:
    with pytest.raises(FormatError, match=r"bring the config\.json beside"):
        read_document(struct.pack("<Q", 2) + b"{}", MOST)
    with pytest.raises(FormatError, match="irene account --trace FILE --power LOG"):
        read_document(b'{"traceEvents": [], "baseTimeNanoseconds": 1e18}', MOST)


def test_the_model_types_are_those_of_transformers() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    assert known_model_types() == set(CONFIG_MAPPING)


def test_code_of_a_config_is_only_kept_where_it_is_not_needed() -> None:
    code = {"auto_map": {"AutoModel": "evil--model.Evil"}}
    assert read_document(text(CONFIG | code), MOST).kind == "config"
    with pytest.raises(ConfigError, match="never does"):
        read_document(text({"model_type": "evil", **code}), MOST)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, ConfigError),
        ({"model_type": 3}, ConfigError),
        ({"model_type": "bertt"}, ConfigError),
        ({**CONFIG, "num_hidden_layers": 10**9}, LimitError),
        ({**CONFIG, "hidden_size": 10**30}, LimitError),
        ({**CONFIG, "a": [[[]] * 2000]}, LimitError),
        ({**CONFIG, "name": "x" * 20_000}, LimitError),
        ({"schema": "irene.other/1"}, FormatError),
        (
            {"schema": "irene.tree/99", "tree": {"count": 1, "children": []}},
            FormatError,
        ),
        ([], FormatError),
    ],
)
def test_other_documents_are_refused(fields: Any, error: type[IreneError]) -> None:
    with pytest.raises(error):
        read_document(text(fields), MOST)


def test_a_saved_tree_is_kept() -> None:
    body = small_tree().to_json().encode()
    assert read_document(body, MOST).kind == "tree"
    ledger = {**small_tree().to_dict(), "ledger": {"schema": "irene.ledger/1"}}
    assert read_document(text(ledger), MOST).kind == "ledger"


@pytest.mark.parametrize(
    "body",
    [
        tree_with(count=10**9),
        tree_with(count=0),
        tree_with(count="many"),
        tree_with(count=True),
        tree_with(flops=10**30),
        tree_with(flops="a lot"),
        tree_with(flops=None),
        tree_with(children=None),
        tree_with(inputs="x"),
        tree_with(inputs=[[{}]]),
        tree_with(members=[{"name": "a", "place": 1}] * 3),
        tree_with(features={"x": "y"}),
        tree_with(op=7),
        tree_with(path={}),
        tree_with(energy_j="hot", low_j=0, high_j=0, source="measured"),
        text({**small_tree().to_dict(), "ledger": 3}),
        text({**small_tree().to_dict(), "notes": 3}),
        text({**small_tree().to_dict(), "spec": []}),
        text({**small_tree().to_dict(), "spec": {"model": "m", "batch_size": -1}}),
    ],
)
def test_a_tree_that_does_not_hold_together_is_refused(body: bytes) -> None:
    with pytest.raises((FormatError, LimitError)):
        read_document(body, MOST)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("my\nmodel\x00\x1b[31m", "my model [31m"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("x" * 1000, "x" * 200),
        ("../../etc/passwd", "../../etc/passwd"),
    ],
)
def test_a_name_is_one_line_of_text(name: str, shown: str) -> None:
    assert readable_name(name) == shown


# The store ----------------------------------------------------------------------


def test_an_upload_is_kept_once_and_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.sqlite'}"
    store = open_store(url)
    first, is_new = Uploads(store.engine).put("config", "mine", b"{}")
    again, is_new_again = Uploads(store.engine).put("config", "yours", b"{}")
    store.close()
    assert (is_new, is_new_again) == (True, False)
    assert first == again
    assert first.id == key_of(b"{}")
    store = open_store(url)
    assert Uploads(store.engine).get(first.id) == first
    store.close()


def test_a_damaged_upload_is_never_served(tmp_path: Path) -> None:
    from sqlalchemy import text as sql

    store = open_store(f"sqlite:///{tmp_path / 'x.sqlite'}")
    uploads = Uploads(store.engine)
    kept, _ = uploads.put("config", "mine", b'{"a": 1}')
    with store.engine.begin() as connection:
        body = gzip.compress(b'{"a": 2}')
        connection.execute(sql("UPDATE uploads SET body = :b"), {"b": body})
    assert uploads.get(kept.id) is None
    assert uploads.put("config", "mine", b'{"a": 1}')[1]
    assert uploads.get(kept.id) is not None
    store.close()
