"""Questions as tools of the Model Context Protocol, for agents.

A tool is a question of the table: it takes its parameters and gives its document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from irene import __version__
from irene.analyse.listings import hardware_document, models_document
from irene.errors import IreneError, MissingExtraError, UsageError
from irene.parameters import Parameter
from irene.questions import QUESTIONS
from irene.trace import catalogue

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

ASKED = {
    "predict": "energy", "compare": "compare", "suggest": "suggest", "cost": "cost",
    "plan_training": "plan-training",
}  # fmt: skip
"""Tools, and the questions that they ask."""
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
USUAL: Mapping[str, Mapping[str, Any]] = {"predict": {"level": "module"}}
"""What agents get unless they ask for more: their room is small."""
INSTRUCTIONS = (
    "How much energy a machine-learning model uses, and where inside it, predicted "
    "without running it. Models are names of `models`, Hugging Face ids or paths of "
    "config.json, GGUF, safetensors and ONNX files; machines are those of `hardware`. "
    "Energies are in joules with an interval; tell users both."
)


def tools() -> list[dict[str, Any]]:
    """Name, description, input and output of every tool, as JSON schemas."""
    found = [
        _tool(name, QUESTIONS[asked].summary, _input(asked), QUESTIONS[asked].schema)
        for name, asked in ASKED.items()
    ]
    words = {"type": "string", "description": "Words that occur in a name or family"}
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    search = {**nothing, "properties": {"search": words}}
    return [
        *found,
        _tool("models", "Models that are known by name", search, "irene.models/1"),
        _tool("hardware", "Machines to predict for", nothing, "irene.hardware/1"),
    ]


def _tool(name: str, words: str, takes: Any, schema: str) -> dict[str, Any]:
    gives = {
        "type": "object", "required": ["schema"],
        "properties": {"schema": {"const": schema}},
    }  # fmt: skip
    return {
        "name": name, "description": words, "input_schema": takes,
        "output_schema": gives,
    }  # fmt: skip


def _input(question: str) -> dict[str, Any]:
    known = QUESTIONS[question].parameters()
    return {
        "type": "object",
        "properties": {each.name: _schema(each) for each in known},
        "required": [each.name for each in known if each.required],
        "additionalProperties": False,
    }


def _schema(each: Parameter) -> dict[str, Any]:
    one: dict[str, Any] = {"type": TYPES[each.kind]}
    if each.choices:
        one["enum"] = list(each.choices)
    bounds = {"minimum": each.asked.least, "maximum": each.asked.most}
    if each.kind in (int, float):
        one |= {name: bound for name, bound in bounds.items() if bound is not None}
    made = {"type": "array", "items": one} if each.many else one
    return {**made, "description": each.words}


def called(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The document that a tool answers with.

    Args:
        name: Of the tool.
        arguments: By name.

    Raises:
        IreneError: There is no such tool, or it cannot be answered.
    """
    takes = {"models": {"search"}, "hardware": set()}.get(name, set(arguments))
    if unknown := sorted(set(arguments) - takes):
        known = ", ".join(takes) or "none"
        raise UsageError(f"no option {unknown[0]!r} of {name}; there is {known}")
    if name == "models":
        found = models_document(catalogue.search(str(arguments.get("search") or "")))
        short = ("name", "family", "kind", "hub_id", "params")
        rows = [{key: each[key] for key in short} for each in found["models"]]
        return {**found, "models": rows}
    if name == "hardware":
        rows = [each["hardware"] for each in hardware_document()["hardware"]]
        return {"schema": "irene.hardware/1", "hardware": rows}
    if name not in ASKED:
        raise UsageError(f"no tool {name!r}; there are {', '.join(ASKED)}, models, …")
    question = QUESTIONS[ASKED[name]].asked({**USUAL.get(name, {}), **arguments})
    question.check()
    return dict(question.document(question.answer()))


def make_server(call: Callable[..., dict[str, Any]] = called) -> Server[Any]:
    """The server with all tools.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    try:
        from anyio import to_thread
        from mcp import types
        from mcp.server.lowlevel import Server
    except ImportError as error:
        raise MissingExtraError(
            "irene mcp needs the MCP SDK: pip install 'irene-energy[mcp]'"
        ) from error

    def text_of(text: str) -> Any:
        return types.TextContent(type="text", text=text)

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(**each) for each in tools()])

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        try:
            found = await to_thread.run_sync(call, params.name, params.arguments or {})
        except IreneError as error:
            return types.CallToolResult(content=[text_of(str(error))], is_error=True)
        content = [text_of(json.dumps(found))]
        return types.CallToolResult(content=content, structured_content=found)

    return Server(
        "irene", version=__version__, instructions=INSTRUCTIONS,
        on_list_tools=list_tools, on_call_tool=call_tool,
    )  # fmt: skip


def run_stdio() -> None:
    """Answer an agent over standard input and output, until it leaves."""
    server = make_server()
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)
