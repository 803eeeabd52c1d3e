"""Names of machines when stores are merged: two machines never share one silently."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from irene.dataset.store.entry import Entry
from irene.errors import UsageError

__all__ = ["Machine", "names_of_machines"]


class Machine(NamedTuple):
    """A machine as a store knows it.

    Attributes:
        name: What it is called there.
        covers: What its energy covers.
        description: Processor, accelerator and memory in words.
    """

    name: str
    covers: str
    description: str

    @classmethod
    def of(cls, entry: Entry) -> Machine:
        """The machine that an entry was measured on."""
        hardware = entry.origin.hardware
        return cls(entry.hardware, hardware.covers, hardware.description)


def names_of_machines(
    new: Sequence[Entry],
    there: Iterable[Entry] = (),
    keep_apart: bool = False,
    as_name: str | None = None,
) -> dict[Machine, str]:
    """What every machine of some entries is to be called.

    Args:
        new: Entries that come.
        there: Entries that are where they come to; these keep their names.
        keep_apart: Machines of one name that differ are called NAME@HOST.
        as_name: Machines of one name that differ are one, called this.

    Raises:
        UsageError: Machines of one name differ, and nothing says what to do; or one
            name would be given to energies that cover different things.
    """
    known = {Machine.of(entry) for entry in there if entry.state == "measured"}
    came = {Machine.of(entry) for entry in new if entry.state == "measured"}
    clashing = _clashing(came, known)
    if clashing and not keep_apart and as_name is None:
        raise UsageError(_refusal(clashing))
    names = {Machine.of(entry): entry.hardware for entry in new}
    if as_name is not None:
        return names | _as_one(clashing, as_name, came | known, known)
    return names | _apart(clashing, new, known)


def _clashing(came: set[Machine], known: set[Machine]) -> list[Machine]:
    """Machines that share their name with another, but where that is so already."""
    by_name: dict[str, set[Machine]] = {}
    for machine in came | known:
        by_name.setdefault(machine.name, set()).add(machine)
    return sorted(
        machine
        for machine in came
        if len(by_name[machine.name]) > 1 and not by_name[machine.name] <= known
    )


def _refusal(clashing: Sequence[Machine]) -> str:
    name = clashing[0].name
    alike = [machine for machine in clashing if machine.name == name]
    told = "; ".join(
        f"{m.description or 'not described'}, covers {m.covers}" for m in alike
    )
    return (
        f"machines that differ are called {name!r} ({told}): --keep-apart calls them "
        f"{name}@HOST, --as NAME says that they are one machine"
    )


def _as_one(
    clashing: Sequence[Machine],
    name: str,
    everything: set[Machine],
    known: set[Machine],
) -> dict[Machine, str]:
    alike = {*clashing, *(m for m in everything if m.name == name)}
    covers = sorted({machine.covers for machine in alike})
    if len(covers) > 1:
        raise UsageError(
            f"energies that cover {' and '.join(covers)} are not those of one machine: "
            "use --keep-apart"
        )
    stuck = sorted({m.name for m in known} & {m.name for m in clashing} - {name})
    if stuck:
        raise UsageError(
            f"the machine is called {stuck[0]!r} already where they are merged to: "
            f"use --as {stuck[0]}, or another folder"
        )
    return dict.fromkeys(clashing, name)


def _apart(
    clashing: Sequence[Machine], new: Sequence[Entry], known: set[Machine]
) -> dict[Machine, str]:
    hosts: dict[Machine, set[str]] = {}
    for entry in new:
        hosts.setdefault(Machine.of(entry), set()).add(entry.origin.host)
    wanted = {
        machine: f"{machine.name}@{'+'.join(sorted(hosts[machine]))}"
        for machine in clashing
        if machine not in known
    }
    count: Mapping[str, int] = {}
    for name in [*wanted.values(), *(machine.name for machine in known)]:
        count = {**count, name: count.get(name, 0) + 1}
    return {
        machine: name if count[name] == 1 else f"{name}-{_digest(machine)}"
        for machine, name in wanted.items()
    }


def _digest(machine: Machine) -> str:
    return hashlib.sha256("\n".join(machine).encode()).hexdigest()[:6]
