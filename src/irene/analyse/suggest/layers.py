"""Top layers of a fine-tuned encoder that can go."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion
from irene.trace import catalogue

FEWEST = 6
KEPT = 2 / 3
COUNTS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
LITERATURE = (
    "Sajjad et al. 2023 (Computer Speech & Language) drop up to 40 % of the layers of "
    "BERT, RoBERTa and XLNet and keep up to 98 % of their scores"
)


def fewer_layers(situation: Situation) -> list[Suggestion]:
    """Two thirds of the layers of an encoder."""
    entry = catalogue.find(situation.base.run.model)
    if entry is None or entry.kind != "encoder":
        return []
    names = [name for name in COUNTS if name in situation.fields]
    if not names:
        return []
    name = situation.model.aliases.get(names[0], names[0])
    count = situation.fields[name]
    if not isinstance(count, int) or count < FEWEST:
        return []
    kept = round(count * KEPT)
    return situation.suggest(
        "layers",
        {name: kept},
        f"drop the top {count - kept} of {count} layers before fine-tuning",
        "layers take energy in proportion to their number",
        effort="retraining",
        accuracy=LITERATURE,
    )
