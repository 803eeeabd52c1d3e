"""YAML in which every value knows its line, so that an error can name it."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn

import yaml

from irene.errors import UsageError
from irene.whole_file import trying_to

LARGEST_BYTES = 1_000_000
PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass(frozen=True, slots=True)
class Located:
    """A value of a YAML file, or a list or dict of such, and its line, from 1."""

    value: Any
    line: int
    file: str

    def refuse(self, what: str) -> NoReturn:
        """Raise an error that names the line."""
        raise UsageError(f"{self.file}:{self.line}: {what}")

    def mapping(self, what: str, allowed: Iterable[str]) -> dict[str, Located]:
        """Its entries, if it is a mapping that has no others than those allowed."""
        if not isinstance(self.value, dict):
            self.refuse(f"{what} must be `key: value` lines, got {self.plain()!r}")
        names = list(allowed)
        for key, one in self.value.items():
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
                hint = (
                    f"did you mean {near[0]}?"
                    if near
                    else "write one of " + (", ".join(names))
                )
                one.refuse(f"{what} has no {key!r}; {hint}")
        return self.value

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: one.plain() for key, one in self.value.items()}
        if isinstance(self.value, list):
            return [one.plain() for one in self.value]
        return self.value

    def of_type(self, name: str, hint: Any) -> Any:
        """The value without lines, if it fits a type."""
        value = self.plain()
        if not fits(value, hint):
            self.refuse(f"{name} must be {in_words(hint)}, got {value!r}")
        return value


class _Loader(yaml.SafeLoader):
    """Plain values only, and each of them written out."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                problem="write the value out instead of *" + str(event.anchor),
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)


def read_located(path: Path) -> Located:
    """The content of a YAML file."""
    with trying_to("read", path), path.open("rb") as file:
        text = file.read(LARGEST_BYTES + 1)
    if len(text) > LARGEST_BYTES:
        raise UsageError(f"{path} is larger than {LARGEST_BYTES:,} bytes")
    try:
        loader = _Loader(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    try:
        node = loader.get_single_node()
        if node is None:
            raise UsageError(f"{path}:1: it is empty; write `model: […]` to begin with")
        return _located(node, loader, str(path))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{path}:{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path}: not YAML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: it is nested too deeply") from error
    finally:
        loader.dispose()


def _located(node: Any, loader: _Loader, file: str) -> Located:
    line = node.start_mark.line + 1
    many = isinstance(node, yaml.MappingNode | yaml.SequenceNode)
    if many and node.tag not in PLAIN_TAGS:
        Located(None, line, file).refuse(f"a sweep has no {node.tag}; take it out")
    if isinstance(node, yaml.MappingNode):
        entries: dict[str, Located] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node, deep=True))
            at = key_node.start_mark.line + 1
            value = _located(value_node, loader, file)
            if key in entries:
                Located(None, at, file).refuse(f"{key!r} is there twice; join the two")
            entries[key] = Located(value.value, at, file)
        return Located(entries, line, file)
    if isinstance(node, yaml.SequenceNode):
        return Located([_located(one, loader, file) for one in node.value], line, file)
    return Located(loader.construct_object(node), line, file)


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is of an annotated type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(
            fits(k, arguments[0]) and fits(v, arguments[1]) for k, v in value.items()
        )
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, list) and all(fits(v, arguments[0]) for v in value)
    if hint is Any:
        return True
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, int | float if hint is float else hint)


def in_words(hint: Any) -> str:
    """An annotated type, for people."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        return " or ".join(in_words(one) for one in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin is not None:
        return "`name: value` entries" if issubclass(origin, Mapping) else "a list"
    words = {
        int: "a whole number",
        float: "a number",
        str: "a word",
        bool: "true or false",
    }
    return "null" if hint is NoneType else words.get(hint, str(hint))
