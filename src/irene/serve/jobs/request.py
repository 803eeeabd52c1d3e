"""What may be asked of a job, checked before it is accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from irene.errors import SpecError, UnknownModelError, UsageError
from irene.serve.http.settings import Settings
from irene.serve.jobs.notify import check_notify
from irene.serve.uploads.storage import Uploads
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.limits import DEFAULT_LIMITS

__all__ = ["KINDS", "PROTOCOLS", "RUN_FIELDS", "UPLOAD", "read_request"]

KINDS = ("predict", "measure")
PROTOCOLS = ("default", "quick")
UPLOAD = "upload:"
UPLOAD_NAME = re.compile(r"upload:[0-9a-f]{32}")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
CLASS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
LONGEST_MODEL = 200
RUN_FIELDS = tuple(
    field.name
    for field in fields(RunSpec)
    if field.name not in ("model", "config_digest")
)
"""Fields of a RunSpec that a client chooses."""
OTHER_FIELDS = ("kind", "model", "hardware", "model_class", "protocol", "notify")


def read_request(
    body: object, settings: Settings, uploads: Uploads, machines: Mapping[str, Any]
) -> dict[str, Any]:
    """Check what is asked for.

    Args:
        body: The JSON value that came.
        settings: What this server does.
        uploads: Configs that may be meant.
        machines: Known hardware by name.

    Returns:
        The request as the job's record keeps it.

    Raises:
        UsageError: Something is wrong; the message says what.
    """
    if not isinstance(body, dict):
        raise UsageError("a job is a JSON object with kind and model")
    unknown = sorted(set(body) - {*RUN_FIELDS, *OTHER_FIELDS})
    if unknown:
        raise UsageError(
            f"a job has no field {unknown[0][:100]!r}; it has "
            f"{', '.join((*OTHER_FIELDS, *RUN_FIELDS))}"
        )
    kind = body.get("kind", "predict")
    if kind not in KINDS:
        raise UsageError(f"kind must be one of {', '.join(KINDS)}")
    model = _checked_model(body.get("model"), settings, uploads)
    request = {
        "kind": kind,
        "model": model,
        "run": _checked_run(model, body),
        "notify": check_notify(body.get("notify"), settings),
    }
    if kind == "predict":
        return request | _prediction(body, machines)
    return request | _measurement(body, settings)


def _checked_model(model: object, settings: Settings, uploads: Uploads) -> str:
    if not isinstance(model, str) or not model:
        raise UsageError("model is missing: a name of the catalogue, or upload:ID")
    shown = repr(model[:LONGEST_MODEL])
    if model.startswith(UPLOAD):
        found = UPLOAD_NAME.fullmatch(model) and uploads.get(model[len(UPLOAD) :])
        if not found:
            raise UnknownModelError(f"no upload {shown}: upload its config.json first")
        if found.kind != "config":
            raise UsageError(f"{shown} is a {found.kind}, not a config.json")
        return model
    if len(model) <= LONGEST_MODEL and catalogue.find(model) is not None:
        return model
    if settings.hub and HUB_NAME.fullmatch(model):
        return model
    near = catalogue.nearest(model[:LONGEST_MODEL], 3)
    advice = f"; did you mean {', '.join(near)}?" if near else ""
    raise UnknownModelError(f"unknown model {shown}{advice}")


def _checked_run(model: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `irene.trace`, with the defaults of a run spec left out."""
    run = {name: body[name] for name in RUN_FIELDS if body.get(name) is not None}
    nested = [name for name, value in run.items() if isinstance(value, dict | list)]
    if nested:
        raise SpecError(f"{nested[0]} must be a single value")
    DEFAULT_LIMITS.check_spec(RunSpec(model, **run))
    model_class = body.get("model_class")
    if model_class is None:
        return run
    if not isinstance(model_class, str) or not CLASS_NAME.fullmatch(model_class):
        raise UsageError("model_class is the name of a class of transformers")
    return run | {"model_class": model_class}


def _prediction(body: Mapping[str, Any], machines: Mapping[str, Any]) -> dict[str, Any]:
    if body.get("protocol") is not None:
        raise UsageError("a prediction has no protocol; a measurement has one")
    hardware = body.get("hardware") or "pc1"
    if not isinstance(hardware, str) or hardware not in machines:
        raise UsageError(
            f"unknown hardware {str(hardware)[:100]!r}; there is {', '.join(machines)}"
        )
    return {"hardware": hardware}


def _measurement(body: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    if not settings.measuring:
        raise UsageError("this server measures nothing: ask for a prediction")
    if body.get("hardware") not in (None, "this-machine"):
        raise UsageError("a measurement is of the server's machine: leave hardware out")
    if body.get("phase") == "train":
        raise UsageError("training cannot be measured node by node: use another phase")
    protocol = body.get("protocol") or "default"
    if protocol not in PROTOCOLS:
        raise UsageError(f"protocol must be one of {', '.join(PROTOCOLS)}")
    return {"protocol": protocol}
