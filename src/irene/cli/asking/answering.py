"""How commands ask questions, and in which forms they give the answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from irene.cli.options import (
    MODEL,
    OUTPUT,
    TreeView,
    add_limits_option,
    add_parameters,
    as_option,
    chosen,
    values_of,
)
from irene.cli.output import (
    check_files,
    check_output,
    put_screen,
    put_text,
    put_tree,
    say,
    say_written,
)
from irene.cli.progress import progress_bar, working
from irene.errors import UsageError
from irene.parameters import Asked, parameters_of
from irene.show.terminal import machine_words
from irene.show.text import dated

if TYPE_CHECKING:
    from irene.questions import Question
    from irene.show.picture import Picture
    from irene.tree import ModelTree

T = TypeVar("T")
SUBJECT = f"{MODEL} or of a saved tree"


@dataclass(frozen=True, kw_only=True)
class AnswerForm:
    """In which forms an answer is given.

    Attributes:
        json: One JSON document.
        csv: One row per line.
        out: Write to a file: CSV if it ends so, or JSON.
        plot: Also draw a picture: .svg, .png or .html, with its numbers beside it.
    """

    json: Annotated[bool, Asked(either="form", group=OUTPUT)] = False
    csv: Annotated[bool, Asked(either="form", group=OUTPUT)] = False
    out: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    plot: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None


def check_form(form: AnswerForm) -> None:
    """Refuse files that cannot be written, before the work is done."""
    check_files(form.out, plot=form.plot)


def put_answer(question: Question[T], found: T, form: AnswerForm) -> bool:
    """Write an answer as JSON or CSV; False where neither is asked for."""
    as_csv = form.csv or (form.out or "").endswith(".csv")
    if not (form.json or as_csv or form.out):
        return False
    put_text(question.csv(found) if as_csv else json_text(question, found), form.out)
    return True


def json_text(question: Question[T], found: T) -> str:
    """The JSON document of an answer, in one line."""
    return json.dumps(question.document(found), allow_nan=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """A command that asks one question of the table and shows the answer.

    Attributes:
        question: Its name in the table.
        USAGE: How it is written.
        EXAMPLES: What its help ends with.
        form: Table of the options that say in which form the answer is given.
        check: Refuses forms that cannot be, before the work is done.
        put: Gives an answer in a form; False where that is not what is asked for.
        draw: Makes the picture of `--plot` from the answer and the options; None for no
            such option.
        add: Adds options that the question does not know.
        more: Values of the question that come from those options.
        doing: What it does, in a word.
        positional: The parameter that needs no option.
        without: Parameters that have options of another kind here.
        subject_help: What the user is told about the positional one.
        predicts_anew: Whether the energy of a saved tree does not count.
    """

    question: str
    USAGE: str
    EXAMPLES: str
    form: type = AnswerForm
    check: Callable[[Any], None] = check_form
    put: Callable[[Question[Any], Any, Any], bool] = put_answer
    draw: Callable[[Any, argparse.Namespace], Picture] | None = None
    add: Callable[[argparse.ArgumentParser], None] | None = None
    more: Callable[[argparse.Namespace], Mapping[str, Any]] | None = None
    doing: str = "predicting"
    positional: str = "model"
    without: Collection[str] = ()
    subject_help: str = SUBJECT
    predicts_anew: bool = False

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options."""
        from irene.questions import QUESTIONS

        asked = QUESTIONS[self.question]
        add_question(
            parser, asked, positional=self.positional, without=self.without,
            subject_help=self.subject_help,
        )  # fmt: skip
        if self.add is not None:
            self.add(parser)
        has = {"csv": asked.has_table, "out": asked.has_table, "plot": self.draw}
        lacks = [name for name in has if self.form is AnswerForm and not has[name]]
        wanted = parameters_of(self.form)
        add_parameters(parser, [each for each in wanted if each.name not in lacks])

    def run(self, options: argparse.Namespace) -> int:
        """Ask, and give the answer in the form that was asked for."""
        from irene.questions import QUESTIONS

        form: Any = chosen(self.form, options)
        self.check(form)
        more = self.more(options) if self.more is not None else {}
        asked: Any = QUESTIONS[self.question]
        question = question_of(options, asked, self.without, **more)
        if self.predicts_anew:
            _say_anew(options)
        found = answered(options, question, self.doing)
        if self.draw is not None and form.plot:
            for path in _signed(self.draw(found, options), found).save(form.plot):
                say_written(path)
        if not self.put(question, found, form):
            from irene.show.answer_screens import answer_screen

            put_screen(answer_screen(found, options))
            put_screen(_default_lines(question, found))
        return 0


def plain_picture(found: Any, _: argparse.Namespace) -> Picture:
    """The picture of an answer to which no option adds anything."""
    from irene.show.picture.answer_pictures import answer_picture

    return answer_picture(found)


def _signed(picture: Picture, found: Any) -> Picture:
    """A picture of an answer with its machines, the program and the day below."""
    from irene.show.picture.frame import signed

    sides = [s for c in getattr(found, "comparisons", ()) for s in (c.base, c.other)]
    run, on = getattr(found, "run", ""), getattr(found, "hardware", "")
    told = [side.source for side in sides] or [run if isinstance(run, str) else ""]
    if on:
        told = [f"predicted for {machine_words(on)}"]
    return signed(picture, dated("; ".join(dict.fromkeys(told))))


def _put_tree(_: Question[Any], tree: ModelTree, view: TreeView) -> bool:
    put_tree(tree, view)
    return True


OF_TREE: Mapping[str, Any] = {
    "form": TreeView, "check": check_output, "put": _put_tree,
    "without": ("level", "fold"), "subject_help": MODEL,
}  # fmt: skip
"""What is special about commands that ask for a tree."""


def add_question(
    parser: argparse.ArgumentParser,
    question: type[Question[Any]],
    *,
    positional: str = "model",
    without: Collection[str] = (),
    subject_help: str = SUBJECT,
) -> None:
    """Everything that a question can be asked with."""
    wanted = [each for each in question.parameters() if each.name not in without]
    add_parameters(parser, wanted, positional=positional, model_help=subject_help)
    add_limits_option(parser)


def question_of(
    options: argparse.Namespace,
    question: type[T],
    without: Collection[str] = (),
    **more: Any,
) -> T:
    """The question that options ask; wrong ones are told before torch is loaded."""
    from irene.trace.limits import limits_lifted

    asked: Any = question
    wanted = [each for each in asked.parameters() if each.name not in without]
    values = values_of(options, wanted)
    with limits_lifted(options.no_limits):
        try:
            made: Any = asked.asked({**values, **more})
        except UsageError as error:
            raise type(error)(as_option(str(error), asked.parameters())) from error
        made.check()
    found: T = made
    return found


def _say_anew(options: argparse.Namespace) -> None:
    """Say that the energy of a saved tree does not count."""
    from irene.analyse.subject import is_saved_tree
    from irene.predict.machines.chosen import default_machine

    if is_saved_tree(options.model):
        say(
            f"{options.model}: the model and size of this tree are predicted anew for "
            f"{options.on or default_machine().name}"
        )


def answered(
    options: argparse.Namespace, question: Question[T], doing: str = "predicting"
) -> T:
    """The answer, with progress on a terminal."""
    from irene.trace.limits import limits_lifted

    with limits_lifted(options.no_limits):
        if not question.is_long and question.name != "compare":
            names = [each.run.model for each in question.subjects()]
            with working(" ".join([doing, *names])):
                return question.answer()
        with progress_bar(doing) as progress:
            return question.answer(progress)


def _default_lines(question: Question[Any], found: object) -> Iterator[str]:
    """Which machine is meant where nobody named one, unless the answer says so."""
    said = question.notes(found)
    whys = dict.fromkeys(why for each in question.subjects() for why in each.why)
    for why in whys if question.machines() else ():
        if why not in said:
            yield why
