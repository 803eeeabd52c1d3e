"""How commands ask questions, and in which forms they give the answers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from irene.cli.options import (
    MODEL,
    OUTPUT,
    TreeView,
    add_limits_option,
    add_parameters,
    add_table,
    as_option,
    chosen,
    values_of,
)
from irene.cli.output import (
    check_files,
    check_output,
    machine_words,
    put_tree,
    say_written,
    screen,
    write_text,
)
from irene.cli.progress import progress_bar, working
from irene.errors import UsageError
from irene.parameters import Asked, parameters_of
from irene.show.text import dated

if TYPE_CHECKING:
    from rich.console import Console

    from irene.questions import Question
    from irene.show.picture import Picture

T = TypeVar("T")
SUBJECT = f"{MODEL} or of a saved tree"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """A command that asks one question of the table and shows the answer.

    Attributes:
        question: Its name in the table.
        show: Fills the screen from an answer and the options.
        draw: Makes the picture of `--plot` from the same; None for no such option.
        add: Adds options that the question does not know.
        more: Values of the question that come from those options.
        doing: What it does, in a word.
        positional: The parameter that needs no option.
        without: Parameters that have options of another kind here.
        subject_help: What the user is told about the positional one.
        predicts_anew: Whether the energy of a saved tree does not count.
    """

    question: str
    show: Callable[[Console, Any, argparse.Namespace], None]
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
        wanted = parameters_of(AnswerForm)
        has = {"csv": asked.has_table, "out": asked.has_table, "plot": self.draw}
        add_parameters(parser, [each for each in wanted if has.get(each.name, True)])

    def run(self, options: argparse.Namespace) -> int:
        """Ask, and give the answer in the form that was asked for."""
        from irene.questions import QUESTIONS

        check_answer(options)
        more = self.more(options) if self.more is not None else {}
        question = question_of(options, QUESTIONS[self.question], **more)
        if self.predicts_anew:
            _say_anew(options)
        found = answered(options, question, self.doing)
        if self.draw is not None and options.plot:
            for path in _signed(self.draw(found, options), found).save(options.plot):
                say_written(path)
        if not _put_answer(options, question, found):
            self.show(screen(), found, options)
            _say_default(question, found)
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


@dataclass(frozen=True)
class AskingTree:
    """A command that asks for a tree and shows it.

    Attributes:
        question: Its name in the table.
        doing: What it does, in a word.
    """

    question: str
    doing: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options."""
        from irene.questions import QUESTIONS

        asked, without = QUESTIONS[self.question], ("level", "fold")
        add_question(parser, asked, without=without, subject_help=MODEL)
        add_table(parser, TreeView)

    def run(self, options: argparse.Namespace) -> int:
        """Ask, then print or write."""
        from irene.questions import QUESTIONS

        view = chosen(TreeView, options)
        check_output(view)
        asked: Any = QUESTIONS[self.question]
        question = question_of(options, asked, level=None, fold=None)
        put_tree(answered(options, question, self.doing), view)
        return 0


def add_question(
    parser: argparse.ArgumentParser,
    question: type[Question[Any]],
    *,
    positional: str = "model",
    without: Collection[str] = (),
    subject_help: str = SUBJECT,
) -> None:
    """Everything that a question can be asked with.

    Args:
        parser: Gets the options.
        question: The question.
        positional: The parameter that needs no option.
        without: Parameters that have options of another kind here.
        subject_help: What the user is told about that one.
    """
    wanted = [each for each in question.parameters() if each.name not in without]
    add_parameters(parser, wanted, positional=positional, model_help=subject_help)
    add_limits_option(parser)


def question_of(options: argparse.Namespace, question: type[T], **more: Any) -> T:
    """The question that options ask; wrong ones are told before torch is loaded.

    Args:
        options: Of `add_question`.
        question: The question.
        **more: Further values by name, instead of what the options say.
    """
    from irene.trace.limits import limits_lifted

    asked: Any = question
    values = values_of(options, asked.parameters())
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
        print(
            f"{options.model}: the model and size of this tree are predicted anew for "
            f"{options.on or default_machine().name}",
            file=sys.stderr,
        )


def answered(
    options: argparse.Namespace, question: Question[T], doing: str = "predicting"
) -> T:
    """The answer, with progress on a terminal.

    Args:
        options: Of `add_question`.
        question: The question.
        doing: In a word.
    """
    from irene.trace.limits import limits_lifted

    with limits_lifted(options.no_limits):
        if not question.is_long and question.name != "compare":
            names = [each.run.model for each in question.subjects()]
            with working(" ".join([doing, *names])):
                return question.answer()
        with progress_bar(doing) as progress:
            return question.answer(progress)


def _say_default(question: Question[Any], found: object) -> None:
    """Say which machine is meant where nobody named one, unless the answer says so."""
    said = question.notes(found)
    whys = dict.fromkeys(why for each in question.subjects() for why in each.why)
    for why in whys if question.machines() else ():
        if why not in said:
            screen().print(why, markup=False)


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


def check_answer(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before the work is done."""
    out, plot = (getattr(options, name, None) for name in ("out", "plot"))
    check_files(out, plot=plot)


def _put_answer(options: argparse.Namespace, question: Question[T], found: T) -> bool:
    """Write an answer as JSON or CSV; False where neither is asked for."""
    out = getattr(options, "out", None)
    as_csv = getattr(options, "csv", False) or (out or "").endswith(".csv")
    if not (options.json or as_csv or out):
        return False
    if as_csv:
        text = question.csv(found)
    else:
        text = json.dumps(question.document(found), allow_nan=False) + "\n"
    write_text(out, text) if out else sys.stdout.write(text)
    return True
