"""`irene mcp`: questions as tools for agents, over the Model Context Protocol."""

from __future__ import annotations

import argparse
import json

USAGE = "[options]"
EXAMPLES = """\
examples:
  irene mcp --tools

An agent starts it, and talks to it over standard input and output:
  {"mcpServers": {"irene": {"command": "irene", "args": ["mcp"]}}}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--tools", action="store_true", help="list the tools as JSON, and exit"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until the agent leaves."""
    from irene.serve.agents import run_stdio, tools

    if options.tools:
        print(json.dumps({"tools": tools()}))
        return 0
    run_stdio()
    return 0
