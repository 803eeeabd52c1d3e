"""What is known: the documents of `irene models` and `irene hardware`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irene.trace.catalogue import Entry


def models_document(found: Sequence[Entry]) -> dict[str, Any]:
    """The document `irene.models/1` as JSON-ready values."""
    models = [
        {**entry.to_dict(), "model_type": entry.config.get("model_type")}
        for entry in found
    ]
    return {"schema": "irene.models/1", "models": models}


def machine_fields(name: str) -> dict[str, Any]:
    """A predictor without its rates."""
    from irene.predict.machines.finding import find_machine

    machine = find_machine(name)
    fields = machine.to_dict()
    kept = {key: fields[key] for key in fields if key not in ("model", "schema")}
    return {**kept, "words": machine.hardware.words}


def hardware_document(names: Sequence[str] = ()) -> dict[str, Any]:
    """The document `irene.hardware/1` as JSON-ready values.

    Args:
        names: Machines, or files of predictors; all known ones if empty.
    """
    from irene.predict.machines.chosen import default_machine
    from irene.predict.machines.finding import known_machines

    machines = [machine_fields(name) for name in names or known_machines()]
    default = default_machine()._asdict()
    return {"schema": "irene.hardware/1", "hardware": machines, "default": default}
