"""All rules asked, and their suggestions in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from irene.analyse.subject import Progress, Subject
from irene.analyse.suggest.activation import cheaper_activation
from irene.analyse.suggest.attention import fused_attention
from irene.analyse.suggest.batch_size import larger_batch
from irene.analyse.suggest.distilled import distilled_relatives
from irene.analyse.suggest.layers import fewer_layers
from irene.analyse.suggest.padding import shorter_padding
from irene.analyse.suggest.precision import half_precision
from irene.analyse.suggest.quantization import fewer_bits
from irene.analyse.suggest.suggestion import EFFORTS, Rule, Situation, Suggestion
from irene.analyse.suggest.tiles import whole_tiles
from irene.analyse.suggest.vocabulary_head import no_vocabulary_head
from irene.energy import Energy
from irene.plain import Document
from irene.presented import Shown
from irene.spec import RunSpec
from irene.tree.headline import is_warning, run_words, whole_energy

RULES: dict[str, Rule] = {
    "batch size": larger_batch,
    "padding": shorter_padding,
    "tiles": whole_tiles,
    "attention": fused_attention,
    "precision": half_precision,
    "quantization": fewer_bits,
    "activation": cheaper_activation,
    "vocabulary head": no_vocabulary_head,
    "layers": fewer_layers,
    "distilled relative": distilled_relatives,
}
"""All rules by name; add your own."""


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Shown, Document):
    """What to change: the easiest to follow first, then what saves most for sure."""

    model: str
    hardware: str
    run: str
    energy: Energy
    per_sequence_j: float
    suggestions: tuple[Suggestion, ...]
    silent: tuple[str, ...]
    notes: tuple[str, ...] = ()
    spec: RunSpec | None = None

    schema: ClassVar = "irene.suggestions/1"


def suggestions(base: Subject, progress: Progress | None = None) -> Advice:
    """Ask all rules what would save energy.

    Raises:
        UsageError: The model, a size or the machine is unknown.
    """
    situation = Situation(base)
    tree = situation.tree
    found: list[Suggestion] = []
    silent = []
    for done, (name, rule) in enumerate(RULES.items()):
        if progress:
            progress(done, len(RULES), name)
        said = rule(situation)
        found += said
        if not said:
            silent.append(name)
    found.sort(key=lambda s: (EFFORTS.index(s.effort), s.half_j - s.saving_j))
    return Advice(
        tree.spec.model if tree.spec else base.run.model,
        tree.hardware.name if tree.hardware else base.on,
        run_words(tree),
        whole_energy(tree),
        situation.per_sequence_j,
        tuple(found),
        tuple(silent),
        tuple(note for note in tree.notes if is_warning(note)),
        tree.spec,
    )
