"""Parameters: what the fields of a run or of a question say of themselves, once.

A frozen dataclass is the table: annotations are types and bounds, the docstring has the
words, defaults are what is usual. Command lines, queries, messages, clients and the
reference pages are made from `parameters_of`; `read` makes a dataclass from values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from irene.errors import SpecError, UsageError

T = TypeVar("T")
OPEN: Any = None
"""Default of a field that may be left open: what stands for it is chosen later."""
USUAL_WORDS = {
    "machine": "on", "hardware": "on", "gpu": "on", "precision": "dtype",
    "torch_dtype": "dtype", "attn": "attention", "attn_implementation": "attention",
    "length": "seq_len", "max_length": "seq_len", "input_len": "prompt_len",
    "max_new_tokens": "output_len", "quant": "quantization", "tp": "tensor_parallel",
    "kv_cache_dtype": "cache_dtype", "price": "price_per_kwh", "country": "region",
}  # fmt: skip
"""What others call what we call so: only to tell which name is right."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an annotation cannot say of a field.

    Attributes:
        flags: Options of the command line, besides `--name`.
        also: Other names that mean the same in requests and calls.
        least: Smallest value.
        most: Largest value that a stranger may ask for.
        longest: Most characters of a text.
        pattern: What a text has to look like.
        usual: What stands for it where it is left open.
        metavar: What the command line calls a value.
        examples: Of values.
        group: Heading under which the command line lists it.
        word: Whether it needs no option on the command line.
        rest: Whether all words that follow on the command line belong to it.
        either: Those that share this name exclude each other on the command line.
        here: Whether it is asked on this machine alone, never by strangers.
        is_body: Whether it is a document beside the request, not one of its options.
    """

    flags: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    longest: int = 200
    pattern: str = ""
    usual: Any = None
    metavar: str = ""
    examples: tuple[Any, ...] = ()
    group: str = ""
    word: bool = False
    rest: bool = False
    either: str = ""
    here: bool = False
    is_body: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field, with everything that is said of it.

    Attributes:
        name: Of the field.
        kind: `int`, `float`, `str` or `bool`.
        words: What it means.
        default: Value where nobody gives one; None: left open.
        choices: All values, where they are few.
        required: Whether it has to be given.
        many: Whether it may be given several times.
        asked: The rest.
    """

    name: str
    kind: type
    words: str
    default: Any = None
    choices: tuple[str, ...] = ()
    required: bool = False
    many: bool = False
    asked: Asked = Asked()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that mean it, its own first."""
        return (self.name, *self.asked.also)

    @property
    def usual(self) -> Any:
        """What stands for it where nobody gives a value."""
        return self.asked.usual if self.default is None else self.default

    def check(self, value: Any, among: Sequence[Parameter] = ()) -> Any:
        """A value of the right kind within its bounds.

        Args:
            value: What was given.
            among: The whole table: another parameter may know the value.

        Raises:
            SpecError: It is not; the message has the name, the value and the bounds.
        """
        if self.many:
            several = (value,) if isinstance(value, str) else tuple(value)
            return tuple(self._check_one(each, among) for each in several)
        return self._check_one(value, among)

    def _check_one(self, value: Any, among: Sequence[Parameter]) -> Any:
        if self.choices:
            if value not in self.choices:
                known = ", ".join(self.choices)
                others = [each.name for each in among if value in each.choices]
                meant = f", which is for {' or '.join(others)}" if others else ""
                raise SpecError(
                    f"{self.name} must be one of {known}; got {value!r}{meant}"
                )
            return value
        made: Any = _READERS[self.kind](self.name, value)
        if self.asked.pattern and not re.fullmatch(self.asked.pattern, made):
            raise SpecError(f"{self.name} cannot be {made[:100]!r}")
        least = self.asked.least
        if least is not None and made < least:
            raise SpecError(f"{self.name} must be at least {least:g}, got {value}")
        return made


def whole_number(text: str) -> int:
    """A whole number, also written 1e6 or 4_096.

    Raises:
        ValueError: It is none.
    """
    try:
        return int(text)
    except ValueError:
        value = number(text)
    if value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)


def number(text: str) -> float:
    """A number, also written 1e6 or 1_000_000.

    Raises:
        ValueError: It is none, or not finite.
    """
    value = float(text)
    if value - value != 0:
        raise ValueError(f"{text!r} is not a number")
    return value


def _read_int(name: str, value: Any) -> int:
    try:
        made = whole_number(value) if isinstance(value, str) else value
    except ValueError:
        made = None
    if not isinstance(made, int) or isinstance(made, bool):
        raise SpecError(f"{name} must be a whole number, got {value!r}")
    return made


def _read_float(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return number(str(value))
    except ValueError:
        raise SpecError(f"{name} must be a number, got {value!r}") from None


def _read_bool(name: str, value: Any) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if str(value).lower() not in known:
        raise SpecError(f"{name} must be true or false, got {value!r}")
    return known[str(value).lower()]


def _read_str(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{name} must be a text, got {value!r}")
    return value


_READERS = {int: _read_int, float: _read_float, bool: _read_bool, str: _read_str}


def words_of(cls: type) -> dict[str, str]:
    """What the docstring of a class says of each of its attributes."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = (base.__doc__ or "").partition("Attributes:")[2]
        pieces = re.findall(
            r"^        (\w+): ((?:.+\n?)(?: {12}.+\n?)*)", text, re.MULTILINE
        )
        found |= {name: " ".join(words.split()) for name, words in pieces}
    return found


def parameters_of(cls: Any) -> tuple[Parameter, ...]:
    """The parameters of a dataclass; those of a run that it holds are its own.

    A field with `metadata={"asked": False}` is none. One that holds another table, such
    as a run, may say in its metadata which of that table's parameters are `left_out`,
    what is `required`, and which take several values (`listed`).
    """
    return _parameters(cls)


@cache
def _parameters(cls: type) -> tuple[Parameter, ...]:
    hints, told = _types(cls), words_of(cls)
    found: list[Parameter] = []
    for each in (each for each in fields(cls) if each.name in hints):
        inner = _table_of(hints[each.name])
        if inner is None:
            found.append(_parameter(each, hints[each.name], told.get(each.name, "")))
        else:
            found += _inner_parameters(inner, each.metadata)
    return tuple(found)


@cache
def _types(cls: type) -> dict[str, Any]:
    """Types of the fields that are asked; others may be known to checkers alone."""
    asked = {each.name for each in fields(cls) if each.metadata.get("asked", True)}
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        own = vars(base).get("__annotations__", {})
        told = {name: own[name] for name in asked & own.keys()}
        shown = {"__annotations__": told, "__module__": base.__module__}
        found |= get_type_hints(type(base.__name__, (), shown), include_extras=True)
    return found


def _table_of(hint: Any) -> type | None:
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    is_table = isinstance(bare, type) and hasattr(bare, "__dataclass_fields__")
    return bare if is_table else None


def _inner_parameters(table: type, metadata: Mapping[str, Any]) -> list[Parameter]:
    found = []
    for here in parameters_of(table):
        if here.name in metadata.get("left_out", ()):
            continue
        if here.name in metadata.get("required", ()):
            here = replace(here, required=True)
        if here.name in metadata.get("listed", ()):
            here = _listed(here)
        found.append(here)
    return found


def _listed(parameter: Parameter) -> Parameter:
    """The same parameter, of which several values may be given in one text."""
    of = f" Of {', '.join(parameter.choices)}." if parameter.choices else ""
    words = f"{parameter.words}{of} Several as `1,8,32` or `64:512:64`."
    asked = replace(parameter.asked, least=None, most=None, longest=500, metavar="LIST")
    return replace(parameter, kind=str, choices=(), words=words, asked=asked)


def _parameter(field: Field[Any], hint: Any, words: str) -> Parameter:
    asked = next((a for a in get_args(hint) if isinstance(a, Asked)), Asked())
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(bare) in (Union, UnionType):
        bare = next(each for each in get_args(bare) if each is not NoneType)
    many = get_origin(bare) is tuple
    if many:
        bare = get_args(bare)[0]
    choices = get_args(bare) if get_origin(bare) is Literal else ()
    has_none = field.default is MISSING and field.default_factory is MISSING
    default = None if has_none or many else field.default
    if default is MISSING:
        default = None
    kind = str if choices else bare
    return Parameter(field.name, kind, words, default, choices, has_none, many, asked)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name of ours that somebody means who writes another; None if none is near."""
    ours = list(names)
    usual = USUAL_WORDS.get(name)
    near = [usual] if usual in ours else difflib.get_close_matches(name, ours, n=1)
    return next(iter(near), None)


def check_name(name: str, known: Iterable[Parameter], extra: Sequence[str] = ()) -> str:
    """The right name of a parameter that somebody names."""
    by_name = {each: found.name for found in known for each in found.names}
    if name in by_name:
        return by_name[name]
    flags = {
        flag.lstrip("-").replace("-", "_"): found.name
        for found in known
        for flag in found.asked.flags
    }
    names = [*dict.fromkeys(by_name.values()), *extra]
    near = nearest(name, [*names, *flags])
    right = flags.get(name) or flags.get(near or "", near)
    hint = f"did you mean {right}?" if right else f"there are {', '.join(names)}"
    raise UsageError(f"no option {name[:100]!r}; {hint}")


def read(cls: type[T], values: Mapping[str, Any]) -> T:
    """Make a dataclass from what somebody gave; what is None was not given.

    Args:
        cls: The dataclass.
        values: By name; texts are read as their parameters want them.

    Raises:
        UsageError: A name is unknown, or something is missing.
        SpecError: A value is impossible.
    """
    known = {each.name: each for each in parameters_of(cls)}
    given: dict[str, Any] = {}
    for name, value in values.items():
        if value is not None:
            right = check_name(name, known.values())
            given[right] = known[right].check(value)
    missing = [n for n, each in known.items() if each.required and n not in given]
    if missing:
        raise UsageError(f"{missing[0]} is missing: {known[missing[0]].words}")
    made: T = _made(cls, given)
    return made


def _made(cls: Any, given: Mapping[str, Any]) -> Any:
    hints = _types(cls)
    arguments: dict[str, Any] = {}
    for each in fields(cls):
        inner = _table_of(hints.get(each.name))
        if inner is not None:
            names = {field.name for field in parameters_of(inner)}
            own = {name: value for name, value in given.items() if name in names}
            arguments[each.name] = inner(**own)
        elif each.name in given:
            arguments[each.name] = given[each.name]
    return cls(**arguments)


def written(value: Any) -> dict[str, Any]:
    """What was given to make a dataclass, by name: `read` makes it again from that."""
    kind: Any = type(value)
    hints = _types(kind)
    chosen = getattr(value, "chosen", ())
    found: dict[str, Any] = {}
    for each in fields(value):
        if each.name not in hints or each.name in chosen:
            continue
        held = getattr(value, each.name)
        if _table_of(hints[each.name]) is not None:
            left_out = each.metadata.get("left_out", ())
            found |= {k: v for k, v in written(held).items() if k not in left_out}
        elif held is not None and held != each.default and held != ():
            found[each.name] = list(held) if isinstance(held, tuple) else held
    return found
