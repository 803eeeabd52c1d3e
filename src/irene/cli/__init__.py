"""The command line: one file per command, and the only place that prints.

A command is a module with a table of `Options` and `run(options) -> int`, beside the
texts `USAGE` and `EXAMPLES`; one whose options are no table has `configure(parser)`. Or
it is a row with the same names in the `COMMANDS` of a module. It is imported only when
it is called, so that `irene --help` stays instant.

- `asking`: commands that ask about models; `running`: that run something under meters;
  `data`: on measured data; `machines`: that learn, examine and list machines.
- `serve`: the HTTP API and the dashboard; `data_dir`: what it keeps; `server_tokens`:
  who may use it; `mcp`: tools for agents; `completion`: scripts for shells.
- `options`: options that commands share, made from parameters; `output`: trees, ledgers
  and notes on screen or in files; `progress`: on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from irene import __version__
from irene.errors import IreneError

__all__ = ["COMMANDS", "Command", "build_parser", "main"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program: its module here, and a line for the list."""

    module: str
    summary: str


COMMANDS = {
    "predict": Command("asking.commands", "the energy of a model, node by node"),
    "trace": Command("asking.commands", "a model as a tree with FLOPs and bytes"),
    "measure": Command("running.measure", "a model run here, under power meters"),
    "collect": Command("data.collect", "many runs, measured into a store"),
    "bottlenecks": Command("asking.commands", "what to look at first"),
    "compare": Command("asking.commands", "what differs between models or trees"),
    "what-if": Command("asking.commands", "other sizes, settings, architectures"),
    "trade-off": Command("asking.commands", "accuracy against energy"),
    "cost": Command("asking.commands", "kilowatt-hours, money and CO₂e"),
    "plan-training": Command(
        "asking.commands", "what a training takes, before it runs"
    ),
    "card": Command("asking.card", "its energy for a model card, label or regulator"),
    "check": Command("asking.check", "budgets of a project, and what a change did"),
    "suggest": Command("asking.commands", "what to change, and what it saves"),
    "leaderboard": Command("asking.commands", "all models by their energy"),
    "serve-plan": Command("asking.commands", "the cheapest serving, quick enough"),
    "report": Command("asking.report", "everything about a model on one page"),
    "models": Command("asking.models", "list and search the models we know"),
    "show": Command("asking.show", "print a saved tree"),
    "account": Command("running.account", "where a program spent its energy, op by op"),
    "study": Command("running.study", "what decides the energy, by many runs"),
    "crossvalidate": Command(
        "machines.crossvalidate",
        "how well a method predicts what it has not seen",
    ),
    "train": Command("machines.train", "learn a machine from measured trees"),
    "train-ops": Command(
        "machines.train_ops", "learn GPUs from tables of measured kernels"
    ),
    "evaluate": Command(
        "machines.evaluate", "a saved predictor against measured trees"
    ),
    "validate": Command(
        "machines.validate",
        "a predictor against runs it has never seen, measured",
    ),
    "calibrate": Command(
        "machines.calibrate",
        "a new machine from a known one and few measured trees",
    ),
    "doctor": Command("running.doctor", "which meters work here"),
    "monitor": Command("running.monitor", "what a whole program uses"),
    "watch": Command("running.watch", "what an inference server uses per token"),
    "learn": Command("machines.learn", "learn the machine that this runs on"),
    "hardware": Command("machines.hardware", "list, add and remove machines"),
    "data": Command("data.data", "look into, convert and fetch measured data"),
    "mcp": Command("mcp", "questions as tools for agents"),
    "serve": Command("serve", "the HTTP API and the dashboard"),
    "data-dir": Command("data_dir", "what a server keeps: show, prune, back up"),
    "token": Command("server_tokens", "who may use a server: add, list, remove"),
    "completion": Command("completion", "a script for bash, zsh or fish"),
}

EXAMPLES = """\
examples:
  irene predict bert-base-uncased -b 8 -s 128 --on pc1
  irene trace bert-base-uncased -b 8 -s 128
  irene models llama
  irene suggest gpt2 -b 8
  irene compare bert-base-uncased distilbert-base-uncased
  irene measure bert-base-uncased -b 8 -s 128 --quick
  irene account --steps 20 train.py
  irene trace llama-3.1-8b --phase decode --context 2048 --dtype bf16
"""


class _Parser(argparse.ArgumentParser):
    """One that says which option was meant."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with 2."""
        from irene.parameters import nearest

        _, told, rest = message.partition("unrecognized arguments: ")
        flags = {
            flag[2:].replace("-", "_"): flag
            for flag in self._option_string_actions
            if flag[1] == "-"
        }
        wrong = [word for word in rest.split() if word.startswith("-")] if told else []
        for word in wrong:
            name = word.partition("=")[0].lstrip("-").replace("-", "_")
            if near := nearest(name, flags):
                super().error(f"no option {word}; did you mean {flags[near]}?")
        super().error(message + self._meant(message))

    def _meant(self, message: str) -> str:
        """The options that know a value which another does not."""
        value = message.partition("invalid choice: '")[2].partition("'")[0]
        others = [
            each.option_strings[-1]
            for each in self._actions
            if value and each.option_strings and value in (each.choices or ())
        ]
        return f"; '{value}' is for {' or '.join(others)}" if others else ""


def build_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    summary, command = COMMANDS[name].summary, _command(name)
    parser = _Parser(
        prog=f"irene {name}",
        usage=f"irene {name} {command.USAGE}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if hasattr(command, "Options"):
        from irene.cli.options import add_table

        add_table(parser, command.Options)
    else:
        command.configure(parser)
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error"
    )
    return parser


def _command(name: str) -> Any:
    """What a command does: a row in the table of its module, or the module itself."""
    module: Any = import_module(f"{__name__}.{COMMANDS[name].module}")
    return getattr(module, "COMMANDS", {name: module})[name]


def _overview() -> argparse.ArgumentParser:
    lines = [f"  {name:<13} {command.summary}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="irene",
        usage="irene COMMAND [options]",
        description="How much energy does a model use, and where inside it?\n\n"
        "commands:\n" + "\n".join(lines),
        epilog=EXAMPLES + "\n`irene COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"irene {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        arguments: Words after the program's name; None for those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0].startswith("-"):
        parser = _overview()
        parser.parse_args(words)
        parser.print_help()
        return 0
    name = words[0]
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        _say(f"irene: no command {name!r}{hint} `irene --help` lists them")
        return 2
    options = build_parser(name).parse_args(words[1:])
    return _run(name, options)


def _run(name: str, options: argparse.Namespace) -> int:
    debug = options.debug or os.environ.get("IRENE_DEBUG", "") not in ("", "0")
    try:
        command = _command(name)
        if not hasattr(command, "Options"):
            return int(command.run(options))
        from irene.cli.options import chosen

        return int(command.run(chosen(command.Options, options)))
    except IreneError as error:
        if debug:
            raise
        _say(f"irene {name}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say(f"irene {name}: stopped")
        return 130
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        _say(
            f"irene {name}: unexpected {type(error).__name__}: {error}\n"
            "this is a bug in irene; --debug shows where"
        )
        return 1


def _say(message: str) -> None:
    from irene.cli.output import say

    say(message)
