"""Modes: pre-training, fine-tuning and prediction of one model compared."""

from __future__ import annotations

from collections.abc import Sequence

from irene.account.studies.grid import profiles_of
from irene.account.studies.likeness import difference_matrix, pearson_matrix
from irene.account.studies.profile import OperationKey, Profile, operation_label
from irene.account.studies.program import MODES, Mode, Subject
from irene.account.studies.report import (
    Finding,
    Report,
    energy_bars,
    grouped_bars,
    meter_notes,
    operation_table,
)
from irene.account.studies.run import Conditions
from irene.account.studies.shapes import (
    percent,
    shape_findings,
    shape_table,
    top_findings,
)
from irene.account.studies.store import Store
from irene.errors import UsageError
from irene.show.picture import AxisSpec, Bar, Picture, bar_chart, heat_matrix

__all__ = ["modes"]

TOP = 10


def modes(
    subject: Subject,
    conditions: Conditions,
    store: Store,
    chosen: Sequence[Mode] = MODES,
) -> Report:
    """Run a model in every mode and compare them.

    Args:
        subject: The model.
        conditions: How it is run.
        store: Keeps the runs.
        chosen: At least two modes.

    Raises:
        UsageError: There are not two modes.
    """
    if len(set(chosen)) < 2 or len(set(chosen)) < len(chosen):
        raise UsageError(
            f"two or three of the modes {', '.join(MODES)} are compared, got "
            f"{', '.join(chosen) or 'none'}"
        )
    programs = [(subject, mode) for mode in chosen]
    found = profiles_of(programs, conditions, store, chosen)
    findings = [Finding(f"{p.name}: energy per step", p.total_j, "J") for p in found]
    for each in found:
        findings += shape_findings(each) + top_findings(each)
    return Report(
        "modes",
        f"{subject.name}: {', '.join(chosen)}",
        conditions,
        tuple(findings),
        _pictures(subject.name, found),
        {"shapes": shape_table(found), "operations": operation_table(found)},
        meter_notes(found),
    )


def _pictures(model: str, found: Sequence[Profile]) -> dict[str, Picture]:
    names = [each.name for each in found]
    joules, share = AxisSpec("energy per step", "J"), AxisSpec("share of phase", "%")
    # Only the forward pass is in all of them.
    forward = [
        {key: value for key, value in each.joules.items() if key.phase == "forward"}
        for each in found
    ]
    parts = {
        f"{each.name}, {phase}": percent(each.parts(phase))
        for each in found
        for phase in ("forward", "backward")
        if each.parts(phase)
    }
    phases = {each.name: each.by_phase() for each in found}
    pictures = {
        "energy": energy_bars(found, f"{model}: energy of a step"),
        "phases": grouped_bars(phases, f"{model}: energy by phase", joules),
        "parts": grouped_bars(parts, f"{model}: parts of the model", share),
        "difference": heat_matrix(
            difference_matrix(forward), names, names,
            "Median difference of a forward operation, column against row",
            "%", "from", "to",
        ),
        "correlation": heat_matrix(
            pearson_matrix(forward), names, names,
            "Pearson correlation of the forward operations", "", "of", "with",
        ),
    }  # fmt: skip
    return pictures | {f"top-{each.name}": _top(model, each) for each in found}


def _top(model: str, profile: Profile) -> Picture:
    """The dearest operations; error bars are the spread over runs."""
    keys = profile.largest(TOP)
    bars = [
        Bar(
            label,
            profile.joules[key],
            max(0.0, profile.joules[key] - profile.spread_j[key]),
            profile.joules[key] + profile.spread_j[key],
        )
        for key, label in zip(keys, _labels(keys), strict=True)
    ]
    title = f"{model}, {profile.name}: the dearest operations, layers merged"
    return bar_chart(bars, title, AxisSpec("energy per step", "J"), width=1000)


def _labels(keys: Sequence[OperationKey]) -> list[str]:
    """Names from the layer on, where these are enough to tell them apart."""
    short = [
        operation_label(key._replace(scope=key.scope.rpartition("#.")[2]))
        for key in keys
    ]
    full = [operation_label(key) for key in keys]
    return short if len(set(short)) == len(set(full)) else full
