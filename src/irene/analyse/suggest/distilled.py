"""Smaller models that were made to stand in for this one."""

from __future__ import annotations

from irene.analyse.pareto import AccuracyRow, published_accuracies
from irene.analyse.suggest.suggestion import Situation, Suggestion
from irene.trace import catalogue

RELATIVES = {
    "bert-base-uncased": (
        ("distilbert-base-uncased", "Sanh et al. 2019"),
        ("tinybert-6l-768", "Jiao et al. 2020"),
        ("tinybert-4l-312", "Jiao et al. 2020"),
        ("minilm-l12-h384-uncased", "Wang et al. 2020"),
    ),
    "bert-base-cased": (("distilbert-base-cased", "Sanh et al. 2019"),),
    "bert-base-multilingual-cased": (
        ("distilbert-base-multilingual-cased", "Sanh et al. 2019"),
    ),
    "bert-large-uncased": (("mobilebert-uncased", "Sun et al. 2020"),),
    "roberta-base": (("distilroberta-base", "Sanh et al. 2019"),),
    "gpt2": (("distilgpt2", "Sanh et al. 2019"),),
    "bart-large-cnn": (("distilbart-cnn-12-6", "Shleifer and Rush 2020"),),
    "whisper-large-v3": (("distil-large-v3", "Gandhi et al. 2023"),),
}
"""Students by teacher, with the paper that made them."""


def distilled_relatives(situation: Situation) -> list[Suggestion]:
    """Every student of the model, with what its accuracy is known to cost."""
    entry = catalogue.find(situation.base.run.model)
    if entry is None or situation.base.fields:
        return []
    found: list[Suggestion] = []
    for student, paper in RELATIVES.get(entry.name, ()):
        found += situation.suggest(
            "distilled relative",
            {"model": student},
            f"use {student}",
            f"made to stand in for {entry.name} or models of its size ({paper})",
            effort="another model",
            accuracy=_cost(entry.name, student),
        )
    return found


def _cost(teacher: str, student: str) -> str:
    rows: dict[str, AccuracyRow] = {row.model: row for row in published_accuracies()}
    if teacher not in rows or student not in rows:
        return f"no published figure here; see the card of {student}"
    a, b = rows[teacher], rows[student]
    points = b.accuracy - a.accuracy
    told = f"SST-2 {b.accuracy} % instead of {a.accuracy} % ({points:+.1f} points)"
    return told if a.split == b.split else f"{told}; {b.split} set against {a.split}"
