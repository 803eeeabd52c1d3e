"""What may be asked of a job, checked before it is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irene.errors import UnknownModelError, UsageError
from irene.questions import AskEnergy
from irene.serve.answers.question import check_hardware, check_model
from irene.serve.http.settings import Settings
from irene.serve.jobs.notify import check_notify
from irene.serve.uploads.storage import Uploads
from irene.trace.limits import DEFAULT_LIMITS

__all__ = ["KINDS", "PLANS", "PROTOCOLS", "UPLOAD", "read_learning", "read_request"]

KINDS = ("predict", "measure")
PROTOCOLS = ("default", "quick")
PLANS = ("quick", "usual", "thorough")
UPLOAD = "upload:"
OF_A_JOB = ("kind", "protocol", "notify")
NOT_OF_A_JOB = ("level", "fold")
LONGEST_MODEL = 200
MEASURES_NOTHING = "this server measures nothing: ask for a prediction"


def read_request(body: object, settings: Settings, uploads: Uploads) -> dict[str, Any]:
    """Check what is asked for.

    Args:
        body: The JSON value that came: the parameters of the energy of a model, and
            `kind`, `protocol` and `notify`.
        settings: What this server does.
        uploads: Configs that may be meant.

    Returns:
        The request as the job's record keeps it.

    Raises:
        UsageError: Something is wrong; the message says what.
        Problem: The machine is unknown.
    """
    if not isinstance(body, dict):
        raise UsageError("a job is a JSON object with kind and model")
    kind = body.get("kind") or "predict"
    if kind not in KINDS:
        raise UsageError(f"kind must be one of {', '.join(KINDS)}")
    question = AskEnergy.asked(_of_the_question(body))
    DEFAULT_LIMITS.check_spec(question.run)
    run = {k: v for k, v in question.values().items() if k not in ("model", "on")}
    request = {
        "kind": kind,
        "model": _checked_model(question.run.model, settings, uploads),
        "run": run,
        "notify": check_notify(body.get("notify"), settings),
    }
    if kind == "predict":
        if body.get("protocol") is not None:
            raise UsageError("a prediction has no protocol; a measurement has one")
        check_hardware(question.on)
        return request | {"hardware": question.on}
    return request | _measurement(body, settings)


def read_learning(body: object, settings: Settings) -> dict[str, Any]:
    """Check how the server's machine is to be learned.

    Args:
        body: The JSON value that came, with `plan` and `notify`.
        settings: What this server does.

    Returns:
        The request as the job's record keeps it.

    Raises:
        UsageError: Something is wrong; the message says what.
    """
    if not isinstance(body, dict) or set(body) - {"plan", "notify"}:
        raise UsageError("learning is asked for by a JSON object of plan and notify")
    if not settings.measuring:
        raise UsageError(MEASURES_NOTHING)
    plan = body.get("plan") or PLANS[0]
    if plan not in PLANS:
        raise UsageError(f"plan must be one of {', '.join(PLANS)}")
    notify = check_notify(body.get("notify"), settings)
    return {"kind": "learn", "plan": plan, "notify": notify}


def _of_the_question(body: Mapping[str, Any]) -> dict[str, Any]:
    offered = [
        name
        for each in AskEnergy.parameters()
        if not each.asked.here and each.name not in NOT_OF_A_JOB
        for name in each.names
    ]
    unknown = sorted(set(body) - {*offered, *OF_A_JOB})
    if unknown:
        known = ", ".join((*OF_A_JOB, *offered))
        raise UsageError(f"a job has no field {unknown[0][:100]!r}; it has {known}")
    return {name: value for name, value in body.items() if name not in OF_A_JOB}


def _checked_model(model: str, settings: Settings, uploads: Uploads) -> str:
    if not model.startswith(UPLOAD):
        return check_model(model[:LONGEST_MODEL], hub=settings.hub)
    found = uploads.get(model[len(UPLOAD) :][:64])
    if found is None:
        raise UnknownModelError(
            f"no upload {model[:LONGEST_MODEL]!r}: upload its config.json first"
        )
    if found.kind != "config":
        raise UsageError(f"{model!r} is a {found.kind}, not a config.json")
    return model


def _measurement(body: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    if not settings.measuring:
        raise UsageError(MEASURES_NOTHING)
    if {body.get("on"), body.get("hardware")} - {None, "this-machine"}:
        raise UsageError("a measurement is of the server's machine: leave hardware out")
    if body.get("phase") == "train":
        raise UsageError("training cannot be measured node by node: use another phase")
    protocol = body.get("protocol") or "default"
    if protocol not in PROTOCOLS:
        raise UsageError(f"protocol must be one of {', '.join(PROTOCOLS)}")
    return {"protocol": protocol}
