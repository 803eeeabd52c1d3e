"""Whether a machine still behaves as it was learned, and what changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from irene.collect.learning import Tell, place
from irene.errors import UsageError
from irene.measure.alone.rounds import FLAGS
from irene.measure.inside.designs import Item, block_of
from irene.plain import Document
from irene.predict.machines.chosen import fingerprint
from irene.predict.machines.finding import find_machine
from irene.predict.machines.learned.learned_machine import LearnedMachine

STEADY = 0.08
"""Blocks that are all this much slower or faster are a drift, whatever their spread."""
SPREADS = 1.0
BLOCK_S = 1.5
"""About how long a block takes, s."""


@dataclass(frozen=True, slots=True)
class Checked(Document):
    """What a look at a machine gave.

    By block it is time now over time then; the drift is their median, less 1. What
    changed is told before and now; flags in how many blocks each was seen.
    """

    name: str
    date: str
    ratios: Mapping[str, float]
    drift: float
    drifted: bool
    changed: Mapping[str, tuple[str, str]]
    disturbed: Mapping[str, int]

    schema: ClassVar = "irene.learn_check/1"

    def lines(self) -> Iterator[str]:
        """For people."""
        speed = "slower" if self.drift > 0 else "faster"
        if self.drifted:
            yield (
                f"{self.name} has drifted: {abs(self.drift):.0%} {speed} than when it "
                f"was learned on {self.date}; `irene learn` learns it anew"
            )
        else:
            yield (
                f"{self.name} behaves as learned on {self.date}: {self.drift:+.1%} "
                f"over {len(self.ratios)} blocks"
            )
        for what, (before, now) in self.changed.items():
            yield f"changed: {what}: {before} then, {now} now"
        if not self.changed:
            yield "nothing of processor, governor, BLAS, torch or threads has changed"
        for flag, count in self.disturbed.items():
            if 2 * count > len(self.ratios):
                yield (
                    f"warning: {FLAGS[flag]} in {count} of {len(self.ratios)} blocks: "
                    "look again on a quiet, cool machine"
                )


def check_machine(name: str, tell: Tell | None = None) -> Checked:
    """Run some of what a machine was learned from again."""
    machine = find_machine(name)
    if not isinstance(machine, LearnedMachine):
        raise UsageError(f"{name} was not learned here: `irene learn` first")
    told = machine.provenance
    if told["fingerprint"] != fingerprint():
        raise UsageError(
            f"{name} was learned on another machine ({told['fingerprint']}), this is "
            f"{fingerprint()}: `irene learn` learns this one"
        )
    then, anchors = told["surroundings"], told["anchors"]
    say = tell or (lambda done, total, what: None)
    ratios, flagged = dict[str, float](), Counter[str]()
    with place(then["device"], int(then["threads"])) as here:
        for number, (key, (seconds, _)) in enumerate(anchors.items()):
            block = block_of(key, told["gflop_s"])
            say(BLOCK_S * number, BLOCK_S * len(anchors), block.family)
            found = here.runner.measure(Item(key, "blocks", block=block))
            if found.whole is not None:
                ratios[f"{block.family}, {key}"] = found.whole.seconds / seconds
                flagged.update(found.flags)
        now = here.about
    if not ratios:
        raise UsageError(f"nothing that {name} was learned from runs here any more")
    drift = median(ratios.values()) - 1.0
    noise = median(spread for _, spread in anchors.values())
    names = dict.fromkeys((*then, *now))
    changed = {
        each: (then.get(each, "nothing"), now.get(each, "nothing"))
        for each in names
        if then.get(each) != now.get(each)
    }
    is_drift = abs(drift) > max(STEADY, SPREADS * noise)
    counted = told["date"], ratios, drift, is_drift, changed, dict(flagged)
    return Checked(name, *counted)
