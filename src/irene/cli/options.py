"""Options that several commands share; those of runs come from their parameters."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from irene import parameters
from irene.errors import UsageError
from irene.parameters import Asked, Parameter, parameters_of, read

T = TypeVar("T")
MODEL = "catalogue name, Hugging Face id, path of a config.json or of a model file"
VIEW, OUTPUT = "the view", "the output"


def whole_number(text: str) -> int:
    """A whole number, also written 1e6 or 4_096; bounds are checked later."""
    try:
        return parameters.whole_number(text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error


def number(text: str) -> float:
    """A number, also written 1e6 or 1_000_000."""
    try:
        return parameters.number(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error


def pair(word: str, option: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Both sides of a word that an option takes."""
    name, is_pair, value = word.partition("=")
    if not (name and is_pair and value):
        raise UsageError(f"--{option} takes {form}, got {word!r}")
    return name, value


def duration_s(text: str) -> float:
    """A time as `30d`, `12h`, `90m` or `45s`, in s."""
    units = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
    try:
        seconds = float(text[:-1]) * units[text[-1:]]
    except (ValueError, KeyError):
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{text!r} is no time: as 30d, 12h, 90m or 45s")
    return seconds


_COUNTS = {
    (False, True): None, (False, False): "?", (True, True): "+", (True, False): "*",
}  # fmt: skip
"""How many words stand for a positional one: of several or one, required or not."""
_TYPES: Mapping[type, Callable[[str], Any]] = {
    int: whole_number, float: number, str: str,
}  # fmt: skip


def add_parameters(
    parser: argparse.ArgumentParser,
    wanted: Iterable[Parameter],
    *,
    positional: str = "model",
    model_help: str = MODEL,
) -> None:
    """Options from parameters, under the headings that they name.

    Of a parameter whose metavar ends in `…`, several values may follow one option.
    """
    groups: dict[tuple[str, str], Any] = {("", ""): parser}
    for each in wanted:
        if each.asked.is_body:
            continue
        if each.asked.word or each.name == positional:
            count = _COUNTS[each.many, each.required]
            named = each.asked.metavar or (None if each.choices else "WORD")
            parser.add_argument(
                each.name, metavar=named, choices=each.choices or None,
                nargs=argparse.REMAINDER if each.asked.rest else count,
                help=_help(each) if each.asked.word else model_help,
            )  # fmt: skip
            continue
        heading, either = each.asked.group, each.asked.either
        if (heading, "") not in groups:
            groups[heading, ""] = parser.add_argument_group(heading)
        if (heading, either) not in groups:
            group = groups[heading, ""].add_mutually_exclusive_group()
            groups[heading, either] = group
        _add_option(groups[heading, either], each)


def add_table(parser: argparse.ArgumentParser, table: type) -> None:
    """Options of a table, whose `model` needs none."""
    add_parameters(parser, parameters_of(table))


def _add_option(group: Any, each: Parameter) -> None:
    long = _flag(each.name)
    if each.kind is bool:
        flag = f"--no-{long[2:]}" if each.default else long
        action = "store_false" if each.default else "store_true"
        group.add_argument(flag, dest=each.name, action=action, help=_help(each))
        return
    short = [flag for flag in each.asked.flags if not flag.startswith("--")]
    rest = [flag for flag in each.asked.flags if flag.startswith("--")]
    how: dict[str, Any] = {"type": _TYPES[each.kind]}
    if each.choices:
        how = {"choices": each.choices}
    elif each.asked.metavar:
        how["metavar"] = each.asked.metavar
    if each.many:
        how |= {"action": "append", "default": None}
    if each.asked.rest:
        how |= {"action": "store", "nargs": argparse.REMAINDER}
    elif each.asked.metavar.endswith("…"):
        how |= {"action": "extend", "nargs": "+"}
        how["metavar"] = each.asked.metavar.rstrip(" …")
    if each.required:
        how["required"] = True
    group.add_argument(*short, long, *rest, dest=each.name, help=_help(each), **how)


def _flag(name: str) -> str:
    """The option of a name; one that is a keyword of Python ends in `_`."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def _help(each: Parameter) -> str:
    words = each.words.rstrip(".").replace("%", "%%").replace("`", "")
    words = words[:1].lower() + words[1:] if words[1:2].islower() else words
    usual = each.usual
    told = usual not in (None, "") and not isinstance(usual, bool)
    usual = f"{usual:g}" if isinstance(usual, float) else usual
    return f"{words} (default {usual})" if told and "default" not in words else words


def values_of(
    options: argparse.Namespace, wanted: Iterable[Parameter]
) -> dict[str, Any]:
    """What the user gave, by name; what is None was left out."""
    found = {each.name: getattr(options, each.name, None) for each in wanted}
    return {name: value for name, value in found.items() if value is not None}


def chosen(table: type[T], options: argparse.Namespace) -> T:
    """What the user gave, as a table."""
    wanted = parameters_of(table)
    try:
        return read(table, values_of(options, wanted))
    except UsageError as error:
        raise type(error)(as_option(str(error), wanted)) from error


def as_option(message: str, known: Iterable[Parameter]) -> str:
    """A message that begins with a parameter, as the command line calls it."""
    name, space, rest = message.partition(" ")
    names = {each.name for each in known}
    return f"{_flag(name)}{space}{rest}" if name in names else message


def add_limits_option(parser: argparse.ArgumentParser) -> None:
    """Whether absurd sizes are refused."""
    parser.add_argument(
        "--no-limits", action="store_true",
        help="accept configs and sizes past the limits",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TreeView:
    """What of a tree is shown, in which form, and where to.

    Attributes:
        depth: Levels below the model.
        sort: Order of siblings (default: as they ran).
        top: Flat list of the N most expensive nodes instead of the tree.
        unfold: Show equal layers one by one.
        level: Deepest kind of node to show.
        all: Show nodes that cost nothing (views) too.
        json: One JSON document.
        csv: One row per node.
        out: Write to a file; JSON unless --csv is given or it ends in .csv.
        html: Write a page to look at in a browser, which needs no network.
        plot: Also draw a picture: .svg, .png or .html, with its numbers beside it.
        plot_as: Boxes as wide as their share (default), or boxes and lines with joules,
            down to --depth.
    """

    depth: Annotated[int | None, Asked(least=0, metavar="N", group=VIEW)] = None
    sort: Annotated[
        Literal["order", "energy", "flops", "bytes", "params"], Asked(group=VIEW)
    ] = "order"
    top: Annotated[int | None, Asked(least=1, metavar="N", group=VIEW)] = None
    unfold: Annotated[bool, Asked(group=VIEW)] = False
    level: Annotated[Literal["module", "ml", "math"], Asked(group=VIEW)] = "ml"
    all: Annotated[bool, Asked(group=VIEW)] = False
    json: Annotated[bool, Asked(either="form", group=OUTPUT)] = False
    csv: Annotated[bool, Asked(either="form", group=OUTPUT)] = False
    out: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    html: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    plot: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    plot_as: Annotated[Literal["icicle", "annotated"], Asked(group=OUTPUT)] = "icicle"
