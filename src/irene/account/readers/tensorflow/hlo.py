"""HLO: what a compiled program of XLA says about its instructions.

A trace names instructions (`multiply_add_fusion.3`); the program knows which op of the
user's code each came from (`op_name`). Programs are in the trace's plane
`/host:metadata`, or come as the text of the compiled module. Field numbers are those of
`xla/service/hlo.proto` and `xla/xla_data.proto`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from irene.account.readers.tensorflow.trace_bytes import trace_bytes
from irene.account.readers.tensorflow.wire import BYTES, Message, Span
from irene.account.readers.tensorflow.xplane import Plane
from irene.errors import FormatError

__all__ = ["HloNames", "Program", "read_hlo_text"]

METADATA = "/host:metadata"
DEEPEST, FARTHEST = 4, 16
"""How far down calls, and how far along users, are followed for a name."""
MODULE = re.compile(r"^HloModule\s+([\w.\-$<>]+)")
COMPUTATION = re.compile(r"^(?:ENTRY\s+)?%?([\w.\-$<>]+)\s+\(?.*->.*\{\s*$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT\s+)?%?([\w.\-$<>]+)\s*=\s")
CALLS = re.compile(r"\b(?:calls|to_apply|body)=%?([\w.\-$<>]+)")
OPERAND = re.compile(r"(?<![=\w])%([\w.\-$<>]+)")
OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Program:
    """A compiled module.

    Attributes:
        name: Name of the module.
        op_names: `op_name` of instructions, where they have one.
        calls: Computations that an instruction calls.
        inside: Instructions of each computation.
        user: The first instruction that uses the result of another.
    """

    name: str
    op_names: dict[str, str] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    inside: dict[str, list[str]] = field(default_factory=dict)
    user: dict[str, str] = field(default_factory=dict)

    def op_name(self, instruction: str) -> str:
        """Where an instruction came from, "" if nobody knows.

        A fusion without a name of its own has that of most of its instructions; what
        is still without one, as a buffer filled with zeros, has that of its user.
        """
        name, found = instruction, ""
        for _ in range(FARTHEST):
            found = self._own_name(name)
            if "/" in found or name not in self.user:
                break
            name = self.user[name]
        return found

    def _own_name(self, instruction: str) -> str:
        own = self.op_names.get(instruction, "")
        if "/" in own:
            return own
        names = Counter(self._names_inside(instruction, DEEPEST))
        return names.most_common(1)[0][0] if names else own

    def _names_inside(self, instruction: str, depth: int) -> Iterator[str]:
        for called in self.calls.get(instruction, ()) if depth else ():
            for inner in self.inside.get(called, ()):
                if "/" in (name := self.op_names.get(inner, "")):
                    yield name
                else:
                    yield from self._names_inside(inner, depth - 1)

    def add(
        self,
        computation: str,
        name: str,
        op_name: str,
        calls: list[str],
        operands: Iterable[str],
    ) -> None:
        """Take up an instruction."""
        for operand in operands:
            self.user.setdefault(operand, name)
        self.inside.setdefault(computation, []).append(name)
        if op_name:
            self.op_names[name] = op_name
        if calls:
            self.calls[name] = calls


class HloNames:
    """All programs that are known, by name and number.

    Attributes:
        programs: By name of the module; the last of those with the same name.
        by_number: By number of the program, as events give it.
    """

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}
        self.by_number: dict[int, Program] = {}
        self._found: dict[tuple[int, str, str], str] = {}

    def add(self, program: Program, number: int | None = None) -> None:
        """Take up a program."""
        self.programs[program.name] = program
        if number is not None:
            self.by_number[number] = program

    def add_plane(self, plane: Plane) -> None:
        """Take up all programs of a trace's metadata."""
        for number, spans in plane.name_stats_at.items():
            for value in plane.read_stats(spans).values():
                if isinstance(value, bytes):
                    source = f"{plane.message.source} ({plane.names[number]})"
                    self.add(_read_proto(Message(value, source)), number)

    def op_name(self, module: str, instruction: str, number: int = -1) -> str:
        """`op_name` of an instruction, "" if it or its program is unknown."""
        key = (number, module, instruction)
        if key not in self._found:
            program = self.by_number.get(number) or self.programs.get(module)
            self._found[key] = program.op_name(instruction) if program else ""
        return self._found[key]


def read_hlo_text(path: Path) -> Program:
    """Read the text of a compiled module, as `jax.jit(f).lower(…).compile().as_text()`.

    Raises:
        UsageError: It cannot be opened.
        FormatError: It is not HLO.
    """
    program: Program | None = None
    computation = ""
    for line in trace_bytes(path).decode("utf-8", "replace").splitlines():
        if program is None:
            if found := MODULE.match(line):
                program = Program(found[1].rstrip(","))
        elif found := INSTRUCTION.match(line):
            named = OP_NAME.search(line)
            op_name = named[1] if named else ""
            operands = OPERAND.findall(line.partition("metadata=")[0], found.end())
            program.add(computation, found[1], op_name, CALLS.findall(line), operands)
        elif found := COMPUTATION.match(line):
            computation = found[1]
    if program is None or not program.inside:
        raise FormatError(f"{path} is not the text of a compiled HLO module")
    return program


def _read_proto(message: Message) -> Program:
    for number, kind, value in message.fields(0, len(message.data)):
        if number == 1 and kind == BYTES:
            return _read_module(message, message.span(kind, value))
    raise FormatError(f"{message.source}: an HLO program without a module")


def _read_module(message: Message, span: Span) -> Program:
    program = Program("")
    found = []
    for number, kind, value in message.fields(*span):
        if number == 1:
            program.name = message.text(kind, value)
        elif number == 3:
            found.append(_computation(message, message.span(kind, value)))
    names = {number_of: name for number_of, name, _ in found}
    for _, name, instructions in found:
        read = [_instruction(message, at) for at in instructions]
        named = {one.number: one.name for one in read}
        for one in read:
            calls = [names[key] for key in one.calls if key in names]
            operands = [named[key] for key in one.operands if key in named]
            program.add(name, one.name, one.op_name, calls, operands)
    return program


def _computation(message: Message, span: Span) -> tuple[int, str, list[Span]]:
    """Number, name and where the instructions are."""
    number_of, name, instructions = -1, "", list[Span]()
    for number, kind, value in message.fields(*span):
        if number == 1:
            name = message.text(kind, value)
        elif number == 2:
            instructions.append(message.span(kind, value))
        elif number == 5:
            number_of = message.number(kind, value)
    return number_of, name, instructions


@dataclass(slots=True)
class _Instruction:
    number: int = -1
    name: str = ""
    op_name: str = ""
    calls: list[int] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)


def _instruction(message: Message, span: Span) -> _Instruction:
    found = _Instruction()
    for number, kind, value in message.fields(*span):
        if number == 1:
            found.name = message.text(kind, value)
        elif number == 7:
            for inner, inner_kind, part in message.fields(*message.span(kind, value)):
                if inner == 2:
                    found.op_name = message.text(inner_kind, part)
        elif number == 35:
            found.number = message.number(kind, value)
        elif number == 36:
            found.operands += _numbers(message, kind, value)
        elif number == 38:
            found.calls += _numbers(message, kind, value)
    return found


def _numbers(message: Message, kind: int, value: int | Span) -> Iterator[int]:
    """A repeated number: one, or several packed into bytes."""
    if isinstance(value, int):
        yield message.number(kind, value)
        return
    position, end = value
    while position < end:
        number, position = message.varint(position, end)
        yield number
