"""`irene mcp`: questions as tools for agents, over the Model Context Protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass

USAGE = "[options]"
EXAMPLES = """\
examples:
  irene mcp --tools

An agent starts it, and talks to it over standard input and output:
  {"mcpServers": {"irene": {"command": "irene", "args": ["mcp"]}}}
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        tools: List the tools as JSON, and exit.
    """

    tools: bool = False


def run(options: Options) -> int:
    """Serve until the agent leaves."""
    from irene.serve.agents import run_stdio, tools

    if options.tools:
        print(json.dumps({"tools": tools()}))
        return 0
    run_stdio()
    return 0
