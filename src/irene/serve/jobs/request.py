"""What may be asked of a job, checked before it is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from irene.errors import UnknownModelError, UsageError
from irene.questions import AskEnergy
from irene.serve.answers.question import check_hardware, check_model
from irene.serve.http.problems import wrong_parameters
from irene.serve.http.routes.parameters import LEFT_OUT, query_of
from irene.serve.http.settings import Settings
from irene.serve.jobs.notify import check_notify
from irene.serve.uploads.storage import Uploads
from irene.trace.limits import DEFAULT_LIMITS

T = TypeVar("T", bound=BaseModel)
KINDS = ("predict", "measure")
UPLOAD = "upload:"
Text = Annotated[str, Field(max_length=2_000)]
Notify = dict[Literal["email", "webhook", "secret"], Text]
NOTIFY: Any = Field(LEFT_OUT, description="Who is told when it has ended.")
OF_A_JOB: dict[str, Any] = {
    "kind": (Literal[KINDS], "predict"),
    "protocol": (
        Literal["default", "quick"],
        Field(LEFT_OUT, description="For a measurement."),
    ),
    "notify": (Notify, NOTIFY),
}
JobBody = query_of(AskEnergy, without=("level", "fold", "format"), **OF_A_JOB)
"""The body of a new job: a run, on a machine or measured."""


class LearnBody(BaseModel):
    """How the server's machine is to be learned."""

    model_config = ConfigDict(extra="forbid")
    plan: Literal["quick", "usual", "thorough"] = "quick"
    notify: Notify = NOTIFY


def read_request(body: object, settings: Settings, uploads: Uploads) -> dict[str, Any]:
    """Check what is asked for.

    Args:
        body: The JSON value that came: the parameters of the energy of a model, and
            `kind`, `protocol` and `notify`.
        settings: What this server does.
        uploads: Configs that may be meant.

    Returns:
        The request as the job's record keeps it.
    """
    told = _checked(JobBody, body)
    asked = told.model_dump(exclude_unset=True, exclude_none=True)
    kind, protocol = told.kind, asked.pop("protocol", None)  # type: ignore[attr-defined]
    notify = check_notify(asked.pop("notify", None), settings)
    asked.pop("kind", None)
    question = AskEnergy.asked(asked)
    DEFAULT_LIMITS.check_spec(question.run)
    run = {k: v for k, v in question.values().items() if k not in ("model", "on")}
    model = _checked_model(question.run.model, settings, uploads)
    request = {"kind": kind, "model": model, "run": run, "notify": notify}
    if kind == "predict":
        if protocol is not None:
            raise UsageError("a prediction has no protocol; a measurement has one")
        check_hardware(question.on)
        return request | {"hardware": question.on}
    _check_measurement(asked, settings)
    return request | {"protocol": protocol or "default"}


def read_learning(body: object, settings: Settings) -> dict[str, Any]:
    """Check how the server's machine is to be learned.

    Returns:
        The request as the job's record keeps it.
    """
    told = _checked(LearnBody, body)
    _check_measuring(settings)
    notify = check_notify(told.model_dump()["notify"], settings)
    return {"kind": "learn", "plan": told.plan, "notify": notify}


def _checked(kind: type[T], body: object) -> T:
    try:
        return kind.model_validate(body, strict=True)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise wrong_parameters(found) from error


def _checked_model(model: str, settings: Settings, uploads: Uploads) -> str:
    if not model.startswith(UPLOAD):
        return check_model(model, hub=settings.hub)
    found = uploads.get(model.removeprefix(UPLOAD))
    if found is None:
        raise UnknownModelError(f"no upload {model!r}: upload its config.json first")
    if found.kind != "config":
        raise UsageError(f"{model!r} is a {found.kind}, not a config.json")
    return model


def _check_measurement(asked: Mapping[str, Any], settings: Settings) -> None:
    _check_measuring(settings)
    if {asked.get("on"), asked.get("hardware")} - {None, "this-machine"}:
        raise UsageError("a measurement is of the server's machine: leave hardware out")
    if asked.get("phase") == "train":
        raise UsageError("training cannot be measured node by node: use another phase")


def _check_measuring(settings: Settings) -> None:
    if not settings.measuring:
        raise UsageError("this server measures nothing: ask for a prediction")
