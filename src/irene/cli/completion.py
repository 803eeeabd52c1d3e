"""`irene completion`: a script that completes commands, options, models, machines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

USAGE = "bash|zsh|fish"
EXAMPLES = """\
examples:
  irene completion bash > ~/.local/share/bash-completion/completions/irene
  irene completion zsh > ~/.zfunc/_irene      # with fpath=(~/.zfunc $fpath)
  irene completion fish > ~/.config/fish/completions/irene.fish
"""
BASH = """\
_irene() {{
    local here="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"
    else case "$command $before" in
{choices}
        *) case "$here" in
            -*) case "$command" in
{options}
            esac;;
            *) case "$command" in {asking}) words="{models}";; esac;;
        esac;;
    esac; fi
    COMPREPLY=($(compgen -W "$words" -- "$here"))
}}
complete -o default -F _irene irene
"""
ZSH = "#compdef irene\nautoload -U +X bashcompinit && bashcompinit\n"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help="for which shell"
    )


def run(options: argparse.Namespace) -> int:
    """Write the script on standard output."""
    from irene.cli import COMMANDS, build_parser

    parsers = {name: build_parser(name) for name in COMMANDS}
    lines = _fish(parsers) if options.shell == "fish" else _bash(parsers)
    sys.stdout.write(ZSH if options.shell == "zsh" else "")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _bash(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    from irene.trace import catalogue

    options, choices = [], []
    for name, parser in parsers.items():
        flags = " ".join(flag for each in _options(parser) for flag in each)
        options.append(f'                {name}) words="{flags}";;')
        for each, values in _options(parser).items():
            if values:
                cases = "|".join(f'"{name} {flag}"' for flag in each)
                choices.append(f'        {cases}) words="{" ".join(values)}";;')
    yield BASH.format(
        commands=" ".join(parsers), choices="\n".join(choices),
        options="\n".join(options), asking="|".join(_asking(parsers)),
        models=" ".join(catalogue.entries()),
    )  # fmt: skip


def _fish(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    from irene.cli import COMMANDS
    from irene.trace import catalogue

    for name, command in COMMANDS.items():
        about = command.summary.replace("'", "")
        yield f"complete -c irene -n __fish_use_subcommand -f -a {name} -d '{about}'"
    for name, parser in parsers.items():
        used = f"complete -c irene -n '__fish_seen_subcommand_from {name}'"
        for each, values in _options(parser).items():
            flags = [f"-l {flag[2:]}" for flag in each if flag.startswith("--")]
            flags += [f"-s {flag[1:]}" for flag in each if not flag.startswith("--")]
            only = f" -x -a '{' '.join(values)}'" if values else ""
            yield f"{used} {' '.join(flags)}{only}"
    asking = " ".join(_asking(parsers))
    models = " ".join(catalogue.entries())
    yield f"complete -c irene -n '__fish_seen_subcommand_from {asking}' -a '{models}'"


def _options(
    parser: argparse.ArgumentParser,
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Flags of each option, and the values that it takes where these are few."""
    from irene.predict.machines.finding import known_machines

    found = {}
    for action in parser._actions:  # argparse has no public way to list them
        values = tuple(map(str, action.choices or ()))
        if "--on" in action.option_strings:
            values = tuple(known_machines())
        if action.option_strings:
            found[tuple(action.option_strings)] = values
    return found


def _asking(parsers: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """Commands whose words are models."""
    models = {"model", "subject", "models"}
    return [
        name
        for name, parser in parsers.items()
        if any(action.dest in models for action in parser._get_positional_actions())
    ]
