"""Write the parts of the reference that the program itself knows best.

python -m scripts.reference

`docs/reference/questions.md` is made whole, from the table of questions. In other pages
a part is made between `<!-- made: NAME -->` and `<!-- until here -->`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import irene
from irene.cli import build_parser
from irene.parameters import Parameter, parameters_of, words_of
from irene.questions import QUESTIONS, Question
from irene.spec import RunSpec

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = {"energy": "predict", "tree": "trace"}
"""Commands and functions that are not called as their question."""
ALSO = {"what-if": " and `irene.sensitivity`"}
"""Functions that ask a question in another way."""
OWN_OPTIONS = {
    "fold": "--unfold", "search": "WORD …", "accuracies": "--accuracy FILE",
}  # fmt: skip
"""What the command line has instead of an option made from a parameter."""
HEAD = """\
# Questions and their parameters

Every question is a frozen dataclass in `irene.questions`; the command line, the HTTP
API, the client and the functions of `irene` are made from its fields, and give the same
answer. This page is made from them, too: `python -m scripts.reference`.

A parameter that nobody gives is left open: it has its usual value or is chosen for the
machine, and the answer tells it as chosen. A name that does not exist is refused,
with the nearest that does.

## The run

The fields of [`RunSpec`](python.md#runspec), which nearly every question has. `listed`:
`what-if` takes several values, as `1,8,32` or `64:512:64`.

"""


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(head)
    return "\n".join([row(*names), "|---" * len(names) + "|", *(row(*r) for r in rows)])


def code(text: str) -> str:
    """As code, or nothing."""
    return f"`{text}`" if text else ""


def usual(parameter: Parameter) -> str:
    """What stands for a parameter that nobody gives."""
    if parameter.required:
        return "required"
    value = parameter.usual
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else code(str(value))


def options(parameter: Parameter, question: type[Question[Any]]) -> str:
    """What a parameter is called on the command line."""
    name = COMMANDS.get(question.name, question.name)
    for action in build_parser(name)._actions:
        if action.dest == parameter.name:
            flags = action.option_strings or [parameter.asked.metavar]
            return ", ".join(code(flag) for flag in flags)
    return code(OWN_OPTIONS[parameter.name])


def words(parameter: Parameter) -> str:
    """What a parameter means, with its values."""
    told = parameter.words
    if not all(code(each) in told for each in parameter.choices):
        told += f" One of {', '.join(map(code, parameter.choices))}."
    return told + (" May be given several times." if parameter.many else "")


def wire(parameter: Parameter, question: type[Question[Any]]) -> str:
    """What a parameter is called in a request."""
    if parameter.asked.here:
        return "not served"
    if parameter.asked.is_body:
        return "the body"
    return ", ".join(map(code, parameter.names))


def parameter_table(found: Iterable[Parameter], question: type[Question[Any]]) -> str:
    """Parameters with their names in every language."""
    return table(
        ("parameter", "command line", "HTTP", "usual", "meaning"),
        (
            (code(p.name), options(p, question), wire(p, question), usual(p), words(p))
            for p in found
        ),
    )


def section(question: type[Question[Any]]) -> str:
    """One question: how it is asked, and with which parameters of its own."""
    command = COMMANDS.get(question.name, question.name)
    function = command.replace("-", "_")
    of_run = {each.name: each for each in parameters_of(RunSpec)}
    found = question.parameters()
    own = [each for each in found if each.name not in of_run]
    lacking = [n for n in of_run if n not in {each.name for each in found}]
    asked = [f"`irene {command}`"]
    asked += [f"`GET /api/v1/{question.name}`"]
    asked += [f"`irene.{function}`{ALSO.get(question.name, '')}"]
    form = f"`{question.schema}`" + (", CSV" if question.has_table else "")
    other = [
        f"{code(each.name)} is {usual(each)} unless given"
        for each in found
        if each.name in of_run and each.usual != of_run[each.name].usual
    ]
    run = "The run" + (f" without {', '.join(map(code, lacking))}" if lacking else "")
    run += "".join(f"; {each}" for each in other)
    lines = [
        f"## `{question.name}`",
        (question.__doc__ or "").partition("\n")[0],
        f"{', '.join(asked)}; {form}. {run}.",
        parameter_table(own, question),
    ]
    return "\n\n".join(lines)


def questions_page() -> str:
    """The page of all questions."""
    energy = QUESTIONS["energy"]
    listed = {
        each.name
        for each in QUESTIONS["what-if"].parameters()
        if each.asked.metavar == "LIST"
    }
    run = table(
        ("parameter", "command line", "usual", "meaning"),
        (
            (
                code(p.name) + (" (listed)" if p.name in listed else ""),
                options(p, energy), usual(p), words(p),
            )
            for p in parameters_of(RunSpec)
        ),
    )  # fmt: skip
    sections = "\n\n".join(section(each) for each in QUESTIONS.values())
    return f"{HEAD}{run}\n\n{sections}\n"


def functions() -> str:
    """The functions of the front door, with what they take and give."""
    of_run = {each.name for each in parameters_of(RunSpec)} - {"model"}
    rows = []
    for name in irene.__all__:
        found = getattr(irene, name)
        if isinstance(found, type):
            continue
        taken = inspect.signature(found).parameters
        shown = [shown_argument(each) for n, each in taken.items() if n not in of_run]
        if of_run & set(taken):
            shown.append("…")
        gives = inspect.signature(found).return_annotation
        first = (inspect.getdoc(found) or "").partition("\n")[0]
        rows.append((f"`irene.{name}({', '.join(shown)})`", f"`{gives}`", first))
    return table(("call", "gives", "what for"), rows)


def shown_argument(argument: inspect.Parameter) -> str:
    """An argument with its default."""
    if argument.default is argument.empty:
        return argument.name
    return f"{argument.name}={argument.default!r}"


def run_fields() -> str:
    """The fields of a run, those too that nobody can ask for."""
    told = words_of(RunSpec)
    by_name = {each.name: each for each in parameters_of(RunSpec)}
    return table(
        ("field", "usual", "meaning"),
        (
            (code(n), usual(by_name[n]), words(by_name[n]))
            if n in by_name
            else (code(n), "", told[n])
            for n in RunSpec.__dataclass_fields__
        ),
    )


PARTS = {"functions": functions, "run": run_fields}


def filled(text: str) -> str:
    """A page with the parts that are made."""

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{PARTS[found[2]]()}\n\n{found[3]}"

    pattern = r"(<!-- made: (\w+) -->).*?(<!-- until here -->)"
    return re.sub(pattern, made, text, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page of the reference that has something made, as it should be."""
    found = {REFERENCE / "questions.md": questions_page()}
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "<!-- made: " in text:
            found[page] = filled(text)
    return found


def main() -> None:
    """Write them."""
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
