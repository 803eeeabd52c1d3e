"""Runs in the environment with TensorFlow: `python keras_live.py FOLDER`.

Trains the transformer of two layers, once under the profiler and once under the
callback, and writes what a test compares into the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from irene.account.callbacks.keras_callback import EnergyCallback
from irene.errors import IreneError

assert "tensorflow" not in sys.modules, "the callback imports TensorFlow too early"

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[4] / "scripts" / "record_traces"))

from keras_transformer import (  # noqa: E402
    batches,
    compiled,
    recorded,
    transformer,
)


def peer_reading(trace: bytes) -> dict[str, Any]:
    """The lines of a trace as TensorFlow itself reads them."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(trace)
    return {
        plane.name: [
            [
                line.id,
                line.name,
                len(line.events),
                sum(line.timestamp_ns + e.offset_ps // 1000 for e in line.events),
                sum(e.metadata_id for e in line.events),
                sum(len(e.stats) for e in line.events),
            ]
            for line in plane.lines
        ]
        for plane in space.planes
    }


def train_with(model: keras.Model, callback: EnergyCallback) -> None:
    model.fit(batches(8), verbose=0, callbacks=[callback], validation_data=batches(1))


def ledger_facts(callback: EnergyCallback) -> dict[str, Any]:
    ledger = callback.ledger
    assert ledger is not None
    return {
        "is_callback": isinstance(callback, keras.callbacks.Callback),
        "source": ledger.source,
        "steps": ledger.events.steps,
        "measured_j": ledger.measured_j,
        "difference_j": [account.difference_j for account in ledger.accounts],
        "phases": {row.name: row.time_s for row in ledger.by_phase()},
        "modules": [row.path for row in ledger.by_module()],
        "notes": ledger.notes,
        "torch": "torch" in sys.modules,
    }


def refusal(model: keras.Model, callback: EnergyCallback) -> str:
    try:
        train_with(model, callback)
    except IreneError as error:
        callback.close()
        return str(error)
    return ""


def main(folder: Path) -> None:
    model = compiled(transformer(), keras.optimizers.Adam(1e-3))
    model.fit(batches(2), verbose=0)
    trace = recorded(lambda: model.fit(batches(2), verbose=0))
    (folder / "fit.xplane.pb").write_bytes(trace)
    energy = EnergyCallback(skip=1, warmup=1, steps=3)
    train_with(model, energy)
    predicting = EnergyCallback(skip=0, warmup=0, steps=None, folder=folder / "kept")
    model.predict(batches(2), verbose=0, callbacks=[predicting])
    tf.profiler.experimental.start(str(folder / "other"))
    busy = refusal(model, EnergyCallback(skip=0, warmup=0, steps=1))
    tf.profiler.experimental.stop()
    facts = {
        "peer": peer_reading(trace),
        "fit": ledger_facts(energy),
        "predict": ledger_facts(predicting),
        "busy": busy,
        "short": refusal(model, EnergyCallback(skip=100)),
        "kept": sorted(p.suffix for p in (folder / "kept").rglob("*") if p.is_file()),
    }
    (folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
