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
from functools import cache
from pathlib import Path

from irene.account.readers.tensorflow.wire import Message, trace_bytes
from irene.account.readers.tensorflow.xplane import Plane
from irene.errors import FormatError

METADATA = "/host:metadata"
DEEPEST, FARTHEST = 4, 16
"""How far down calls, and how far along users, are followed for a name."""
MODULE = re.compile(r"^HloModule\s+([\w.\-$<>]+)")
COMPUTATION = re.compile(r"^(?:ENTRY\s+)?%?([\w.\-$<>]+)\s+\(?.*->.*\{\s*$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT\s+)?%?([\w.\-$<>]+)\s*=\s")
CALLS = re.compile(r"\b(?:calls|to_apply|body)=%?([\w.\-$<>]+)")
OPERAND = re.compile(r"(?<![=\w])%([\w.\-$<>]+)")
OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True, eq=False)
class Program:
    """A compiled module: where instructions came from, and what they call and use."""

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
    """All programs that are known, by name and number."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}
        self.by_number: dict[int, Program] = {}
        self.op_name = cache(Program.op_name)

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

    def program(self, module: str, number: int) -> Program | None:
        """A program by its number, else by the name of its module."""
        return self.by_number.get(number) or self.programs.get(module)


def read_hlo_text(path: Path) -> Program:
    """Read the text of a compiled module, `jax.jit(f).lower(…).compile().as_text()`."""
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
    """A module: computations by number, their instructions, and who calls whom."""
    modules = list(message.record(0, len(message.data)).inside(1))
    if not modules:
        raise FormatError(f"{message.source}: an HLO program without a module")
    program = Program(modules[0].text(1))
    computations = list(modules[0].inside(3))
    names = {each.number(5, -1): each.text(1) for each in computations}
    for computation in computations:
        instructions = list(computation.inside(2))
        named = {each.number(35, -1): each.text(1) for each in instructions}
        for each in instructions:
            op_name = next((inner.text(2) for inner in each.inside(7)), "")
            calls = [names[key] for key in each.numbers(38) if key in names]
            operands = [named[key] for key in each.numbers(36) if key in named]
            name, home = each.text(1), computation.text(1)
            program.add(home, name, op_name, calls, operands)
    return program
