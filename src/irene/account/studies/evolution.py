"""Evolution: one model against another, aligned by what their parts are for."""

from __future__ import annotations

from irene.account.studies.grid import profiles_of
from irene.account.studies.likeness import pearson
from irene.account.studies.profile import OperationKey, Profile, role_of
from irene.account.studies.program import Mode, Subject
from irene.account.studies.report import (
    Finding,
    Report,
    Table,
    energy_bars,
    grouped_bars,
    meter_notes,
    operation_table,
)
from irene.account.studies.run import Conditions
from irene.account.studies.shapes import shape_findings, shape_table, top_findings
from irene.account.studies.store import Store
from irene.errors import UsageError
from irene.show.picture import AxisSpec

__all__ = ["evolution"]


def evolution(
    old: Subject,
    new: Subject,
    conditions: Conditions,
    store: Store,
    mode: Mode = "finetuning",
) -> Report:
    """Run two models and compare them.

    Their modules have other names, so they are aligned by role (attention,
    feed-forward, embeddings, …) and phase.

    Args:
        old: What is compared with.
        new: What is compared.
        conditions: How both are run.
        store: Keeps the runs.
        mode: What a step is.

    Raises:
        UsageError: Both are the same model.
    """
    if old.digest == new.digest:
        raise UsageError(f"{old.name} against {new.name}: both are the same model")
    first, second = profiles_of([(old, mode), (new, mode)], conditions, store)
    both = (first, second)
    roles = {each.name: each.by_role() for each in both}
    phases = {each.name: each.by_phase() for each in both}
    joules = AxisSpec("energy per step", "J")
    title = f"{second.name} against {first.name}, {mode}"
    return Report(
        "evolution",
        title,
        conditions,
        tuple(_findings(first, second)),
        {
            "energy": energy_bars(both, f"{title}: energy of a step"),
            "roles": grouped_bars(roles, f"{title}: by role", joules),
            "phases": grouped_bars(phases, f"{title}: by phase", joules),
        },
        {
            "aligned": _aligned(first, second),
            "shapes": shape_table(both),
            "operations": operation_table(both),
        },
        meter_notes(both),
    )


def _role_and_phase(key: OperationKey) -> str:
    role = role_of(key)
    return role if role == key.phase else f"{role} · {key.phase}"


def _findings(first: Profile, second: Profile) -> list[Finding]:
    against = f"{second.name} / {first.name}"
    found = [
        Finding(f"{against}: energy per step", second.total_j / first.total_j),
        Finding(f"{against}: time per step", second.seconds / first.seconds),
        Finding(f"{against}: weights", second.parameters / first.parameters),
    ]
    for what, old, new in (
        ("", first.by_phase(), second.by_phase()),
        ("role ", first.by_role(), second.by_role()),
    ):
        found += [
            Finding(f"{against}: {what}{name}", new[name] / joules)
            for name, joules in sorted(old.items(), key=lambda item: -item[1])
            if joules > 0 and name in new and not (what and name in first.by_phase())
        ]
    likeness = pearson(first.by(_role_and_phase), second.by(_role_and_phase))
    found.append(Finding("Pearson correlation of aligned roles and phases", likeness))
    for each in (first, second):
        found += shape_findings(each) + top_findings(each)
    return found


def _aligned(first: Profile, second: Profile) -> Table:
    """Roles and phases of both beside each other."""
    old, new = first.by(_role_and_phase), second.by(_role_and_phase)
    names = dict.fromkeys([*old, *new])
    rows = [
        (name, old.get(name), new.get(name), new.get(name, 0.0) / old[name])
        if old.get(name)
        else (name, old.get(name), new.get(name), None)
        for name in names
    ]
    columns = ("role and phase", f"{first.name} (J)", f"{second.name} (J)", "ratio")
    return Table(columns, tuple(rows))
