"""`irene report`: everything about a model on one page."""

from __future__ import annotations

import argparse

from irene.cli.asking.answering import add_question, answered, question_of
from irene.cli.output import check_files, put_json, say, write_text

USAGE = "MODEL|TREE.json --html FILE [options]"
EXAMPLES = """\
The page is one file that loads nothing: it can be sent by mail, opened without network
and printed. MODEL may also be a saved tree, measured or traced: what needs predictions
of other sizes and models is then left out, unless --on names a machine.

examples:
  irene report bert-base-uncased -b 8 -s 128 --on pc1 --html bert.html
  irene report gpt2 -b 16 --region DE --price 0.1319 --pue 1.2 --html gpt2.html
  irene report measured.json --html measured.html
  irene report llama-3.1-8b --without trade-off --without sizes --html llama.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    from irene.questions import AskReport

    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--html", metavar="FILE", help="the page to write")
    form.add_argument(
        "--json", action="store_true", help="one JSON document, with the page in it"
    )
    add_question(parser, AskReport)


def run(options: argparse.Namespace) -> int:
    """Ask everything and write the page."""
    from irene.questions import AskReport

    check_files(options.html)
    question = question_of(options, AskReport)
    report = answered(options, question, "asking")
    if options.json:
        put_json(question.document(report))
        return 0
    write_text(options.html, report.html)
    for part, reason in report.left_out.items():
        say(f"not in it: {part}: {reason}")
    return 0
